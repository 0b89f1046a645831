#include "workload/arrivals.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace pmoss {
namespace {

TEST(PoissonArrivals, GapsAreExponentialAndFollowTheSeed) {
  constexpr int count = 200'000;
  constexpr double rate_mqs = 4.0;  // a mean of 250 ns
  PoissonArrivals arrivals(rate_mqs, 7), again(rate_mqs, 7), other(rate_mqs, 8);
  double sum = 0.0, squares = 0.0;
  int longer = 0, equal = 0;
  for (int i = 0; i < count; ++i) {
    const double gap = arrivals.next_gap_ns();
    EXPECT_EQ(gap, again.next_gap_ns());
    equal += gap == other.next_gap_ns() ? 1 : 0;
    sum += gap;
    squares += gap * gap;
    longer += gap > 250.0 ? 1 : 0;
  }
  const double mean = sum / count;
  EXPECT_NEAR(mean, 250.0, 2.5);
  // The standard deviation of an exponential distribution is its mean; of equal gaps it is 0.
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), 250.0, 5.0);
  EXPECT_NEAR(static_cast<double>(longer) / count, std::exp(-1.0), 0.005);
  EXPECT_EQ(equal, 0);
}

}  // namespace
}  // namespace pmoss
