// How far a stream's cores are on the mesh of their last-level domain.
#pragma once

#include <cstddef>
#include <vector>

#include "analytic/core_map.hpp"
#include "analytic/stream_set.hpp"
#include "machine/machine.hpp"

namespace pmoss::analytic {

/// What a mesh adds to latencies. A stream of several cores that are alike has the mean over them.
/// On a machine without a mesh nothing may be asked.
class MeshMap {
 public:
  /// Both arguments must outlive this object.
  MeshMap(const Machine& machine, const CoreMap& map);

  bool empty() const { return place_of_core_.empty(); }
  /// To a line that the last level or memory serves.
  double line_ns(const Stream& stream) const {
    return stream.copies > 1 ? mean_line_ns_[place_of_core_[stream.core]]
                             : machine_.mesh_ns[stream.core];
  }
  /// To a line that another core of the domain has modified.
  double modified_ns(const Stream& reader, const Stream& owner) const {
    if (reader.copies > 1 || owner.copies > 1) {
      return mean_modified_ns_[place_of_core_[reader.core] * mean_line_ns_.size() +
                               place_of_core_[owner.core]];
    }
    return machine_.mesh_modified_ns[reader.core * map_.cores() + owner.core];
  }

 private:
  const Machine& machine_;
  const CoreMap& map_;
  /// Workers of one node and one domain are at one place, for a stream of several cores.
  std::vector<Index> place_of_core_;
  std::vector<double> mean_line_ns_;      // [place]
  std::vector<double> mean_modified_ns_;  // [place][place]
};

}  // namespace pmoss::analytic
