// Profiles of the R-tree of index/: recorded once, then fitted to each instance.
#pragma once

#include <cstdint>
#include <vector>

#include "analytic/profile.hpp"
#include "recording/trace.hpp"
#include "workload/generator.hpp"
#include "workload/points.hpp"

namespace pmoss::analytic {

/// The points are the same in all instances of a workload, so that one recording without a hot
/// region serves them all. An instance's hot region is the share of each cell's lines that lie in
/// it; these lines are touched more often. The lines of a cell are taken as evenly mixed, though
/// those of its dense parts are touched more. The error was measured on six instances of 500,000
/// records with hot regions. Touches came within 10 % of an instance's own recording. The lines not
/// touched in the last 1,000 or 10,000 queries came within 3 %. With a fifth of inserts the latter
/// were up to 18 % too many after 1,000 queries and 6 % after 10,000. Without a hot region all
/// instances are alike.
class RTreeProfiler {
 public:
  /// Builds the tree and records it, as long as that takes; then frees both. Throws
  /// std::invalid_argument like record_rtree(), and if the records are drawn by Zipf, for then each
  /// instance has hot points of its own.
  RTreeProfiler(const WorkloadSpec& workload, std::uint32_t slices,
                const recording::TraceOptions& options);

  /// The profiles of the instance `seed`, which decides where the hot region lies.
  SliceProfiles profiles(std::uint64_t seed) const;

 private:
  WorkloadSpec workload_;
  double inserting_ = 0.0;  // share of the touches that inserts make
  SliceProfiles base_;
  RecordSample sample_;
};

}  // namespace pmoss::analytic
