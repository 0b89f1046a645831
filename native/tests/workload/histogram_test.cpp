#include "workload/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "workload/random.hpp"

namespace pmoss {
namespace {

TEST(Histogram, QuantilesAreCloseToTheSortedValues) {
  Random random(7);
  Histogram histogram;
  std::vector<double> values;
  for (int i = 0; i < 50'000; ++i) {
    // Over nine orders of magnitude.
    const auto value = static_cast<std::uint64_t>(std::exp(random.uniform() * 21.0));
    histogram.add(value);
    values.push_back(static_cast<double>(value));
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.0, 0.1, 0.5, 0.9, 0.99, 0.999}) {
    const double exact = values[static_cast<std::size_t>(q * static_cast<double>(values.size()))];
    EXPECT_NEAR(histogram.quantile(q), exact, 0.02 * exact) << q;
  }
  EXPECT_NEAR(histogram.quantile(1.0), values.back(), 0.02 * values.back());
}

TEST(Histogram, SmallValuesAreExactAndTheLargestFits) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0.0);
  for (std::uint64_t value = 0; value < 64; ++value) histogram.add(value);
  EXPECT_EQ(histogram.quantile(0.0), 0.0);
  EXPECT_EQ(histogram.quantile(0.5), 32.0);
  Histogram other;
  for (int i = 0; i < 1000; ++i) other.add(std::numeric_limits<std::uint64_t>::max());
  histogram.merge(other);
  EXPECT_EQ(histogram.count(), 1064U);
  EXPECT_NEAR(histogram.quantile(0.99), 0x1p64, 0x1p59);
}

}  // namespace
}  // namespace pmoss
