// A workload instance as the model reads it: its profiles, and what follows from them and the
// machine alone.
#pragma once

#include <cstddef>
#include <vector>

#include "analytic/core_map.hpp"
#include "analytic/profile.hpp"
#include "machine/machine.hpp"

namespace pmoss::analytic {

class Instance {
 public:
  /// Replaces the instance.
  void set(SliceProfiles profiles, const Machine& machine);

  Index slices() const { return static_cast<Index>(profiles.slices); }
  /// A slice's row in the arrays per class: its begin, and its length with the padding.
  std::size_t row(Index slice) const { return row_[slice]; }
  std::size_t classes(Index slice) const { return row_[slice + 1] - row_[slice]; }
  std::size_t longest_row() const;
  /// Time of one class's touches for each ns that a touch waits: see SliceTables::build().
  std::vector<double> waits_without_padding(const Machine& machine) const;

  SliceProfiles profiles;
  // Per class, in rows of one slice that are padded with zeros to a multiple of row_lanes.
  std::vector<double> lines, rates, waits, touches, dependent, dirty_share, locks;
  // Per slice and query of the slice, times its share: computation, and waiting for private caches.
  std::vector<double> computation_ns, l2_ns;
  /// What summing up a core reads of a slice's queries.
  struct Query {
    double fixed_ns;  // computation and private caches
    double share;
    double spread;  // 1 + variation
  };
  std::vector<Query> queries;

 private:
  std::vector<std::size_t> row_;
};

}  // namespace pmoss::analytic
