// Demand of each slice: how often which cache lines of it are touched, per query of the whole
// workload. Built once per workload instance; schedules then only decide who shares which cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workload/generator.hpp"

namespace pmoss::analytic {

/// Lines of one kind and one popularity form a class, so that a slice is a dozen numbers.
inline constexpr std::size_t hot_classes =
    8;  // ranks from 4^b to 4^(b+1) - 1, each in a leaf of its own
inline constexpr std::uint64_t hot_ranks = 65535;
inline constexpr std::size_t leaf_header =
    hot_classes;  // header and sample lines of the other leaves
inline constexpr std::size_t leaf_data = hot_classes + 1;
inline constexpr std::size_t inner_header = hot_classes + 2;
inline constexpr std::size_t inner_data = hot_classes + 3;
inline constexpr std::size_t line_classes = hot_classes + 4;

struct SliceProfiles {
  int slices = 0;
  // [slice][class]
  std::vector<double> lines;        // cache lines of the class
  std::vector<double> line_rate;    // touches of one line, per query of the workload
  std::vector<double> dependent;    // misses that wait for one another, per query of the workload
  std::vector<double> streaming;    // lines fetched in sequence, per query of the workload
  std::vector<double> dirty_share;  // share of the touches that write
  // [slice]
  std::vector<double> share;              // probability that a query starts in the slice
  std::vector<double> instructions;       // per query of the slice
  std::vector<double> branch_misses;      // per query of the slice
  std::vector<double> cold_page_touches;  // touches of unpopular leaf pages, per workload query
  std::vector<double> data_bytes;
};

/// Builds the profiles of a B+-tree with the node layout of index/; what does not depend on the
/// instance is computed once.
class BTreeProfiler {
 public:
  /// Throws std::invalid_argument for an impossible specification or number of slices.
  BTreeProfiler(const WorkloadSpec& workload, int slices);

  /// The profiles of the instance `seed`, which decides which keys are hot.
  SliceProfiles profiles(std::uint64_t seed) const;

 private:
  WorkloadSpec workload_;
  int slices_;
  std::vector<double> rank_probability_;  // of the hottest records; empty if all are alike
};

}  // namespace pmoss::analytic
