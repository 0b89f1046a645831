// Profiles of the B+-tree of index/ from formulas, in the time that an episode's reset may take.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analytic/btree_slice.hpp"
#include "analytic/profile.hpp"
#include "workload/generator.hpp"

namespace pmoss::analytic {

/// What does not depend on the instance is computed once.
class BTreeProfiler {
 public:
  /// Throws std::invalid_argument for an impossible specification or number of slices.
  BTreeProfiler(const WorkloadSpec& workload, int slices);

  /// The profiles of the instance `seed`, which decides which keys are hot.
  SliceProfiles profiles(std::uint64_t seed) const;

 private:
  /// [slice] the bands of a hot range of neighbouring records, or of Zipf's records in order.
  std::vector<std::vector<HotBand>> bands(const WorkloadSpec& instance) const;
  void add_bands_in_order(const WorkloadSpec& instance,
                          std::vector<std::vector<HotBand>>& bands) const;
  std::vector<std::array<HotClass, hot_classes>> hottest(std::uint64_t seed) const;
  void rank_hottest();
  double even_share() const;
  std::uint64_t zipf_items() const noexcept;

  WorkloadSpec workload_;
  int slices_;
  std::vector<SliceShape> shapes_;        // of each slice
  std::vector<double> rank_probability_;  // of the hottest records; empty if all are alike
  double tail_ = 0;                       // share of the choices that all records share evenly
};

}  // namespace pmoss::analytic
