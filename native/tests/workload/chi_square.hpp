// Pearson's test of fit, for generators with fixed seeds.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pmoss::testing {

/// Expects that `observed` counts fit the `probabilities`, which add up to 1. The limit is the
/// quantile at 5 standard deviations (Wilson and Hilferty), about one false alarm in 3 million.
inline void expect_fit(const std::vector<std::uint64_t>& observed,
                       const std::vector<double>& probabilities) {
  ASSERT_EQ(observed.size(), probabilities.size());
  std::uint64_t draws = 0;
  double total = 0.0;
  for (std::size_t i = 0; i < observed.size(); ++i) {
    draws += observed[i];
    total += probabilities[i];
  }
  EXPECT_NEAR(total, 1.0, 1e-9);
  double statistic = 0.0;
  for (std::size_t i = 0; i < observed.size(); ++i) {
    const double expected = probabilities[i] * static_cast<double>(draws);
    ASSERT_GT(expected, 5.0) << "bucket " << i << " is too small for the test";
    const double difference = static_cast<double>(observed[i]) - expected;
    statistic += difference * difference / expected;
  }
  const double freedom = static_cast<double>(observed.size() - 1);
  const double ninth = 2.0 / (9.0 * freedom);
  const double limit = freedom * std::pow(1.0 - ninth + 5.0 * std::sqrt(ninth), 3.0);
  EXPECT_LT(statistic, limit) << "with " << freedom << " degrees of freedom";
}

inline void expect_uniform(const std::vector<std::uint64_t>& observed) {
  const auto n = observed.size();
  expect_fit(observed, std::vector<double>(n, 1.0 / static_cast<double>(n)));
}

}  // namespace pmoss::testing
