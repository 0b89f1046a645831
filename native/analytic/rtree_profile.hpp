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
/// region serves them all: an instance's hot region is the share of each cell's lines that lie in
/// it, touched so much more often than the others. The lines of a cell are taken for evenly mixed,
/// though those of its dense parts are touched more. Under hot regions, on six instances of 500,000
/// records, touches came within 10 % of an instance's own recording, and what was not touched in
/// the last 1,000 or 10,000 queries within 3 %; but with a fifth of inserts the latter was up to
/// 18 % too high after 1,000 and 6 % after 10,000. Without a hot region all instances are alike.
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
