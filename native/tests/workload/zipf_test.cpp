// Zipf ranks against their exact probabilities, and the sums behind these.
#include "workload/zipf.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/workload/chi_square.hpp"
#include "workload/portable_math.hpp"

namespace pmoss {
namespace {

TEST(PortableMath, AgreesWithTheLibrary) {
  for (double x = -20.0; x < 20.0; x += 0.0137) {
    EXPECT_NEAR(portable::exp(x) / std::exp(x), 1.0, 1e-15);
    EXPECT_NEAR(portable::log(std::exp(x)), std::log(std::exp(x)), 4e-15 * std::abs(x) + 1e-18);
    EXPECT_NEAR(portable::expm1_ratio(x) * x / std::expm1(x), 1.0, 2e-15);
    if (x > -1.0) {
      EXPECT_NEAR(portable::log1p_ratio(x) * x / std::log1p(x), 1.0, 2e-15);
    }
  }
  EXPECT_EQ(portable::expm1_ratio(0.0), 1.0);
  EXPECT_EQ(portable::log1p_ratio(0.0), 1.0);
  EXPECT_EQ(portable::log(1.0), 0.0);
  EXPECT_EQ(portable::exp(0.0), 1.0);
  EXPECT_EQ(portable::exp(-709.5), 0.0);
  EXPECT_EQ(portable::exp(-1e300), 0.0);
  EXPECT_EQ(portable::exp(-std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_EQ(portable::exp(1e300), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(portable::exp(std::numeric_limits<double>::quiet_NaN())));
}

TEST(Zeta, MatchesTheSum) {
  for (const double theta : {0.0, 0.3, 0.99, 1.0, 1.01, 1.5, 3.0, 10.0}) {
    for (const std::uint64_t items : {1u, 2u, 63u, 64u, 65u, 1000u, 100'000u}) {
      double sum = 0.0;
      for (std::uint64_t i = items; i >= 1; --i) sum += std::pow(static_cast<double>(i), -theta);
      EXPECT_NEAR(zeta(items, theta) / sum, 1.0, 1e-12) << items << " items, theta " << theta;
    }
  }
}

TEST(Zeta, KnowsYcsbsConstant) {
  // The constant that YCSB ships for 10^10 items, and the share of the hottest key it leads to.
  EXPECT_NEAR(zeta(10'000'000'000, 0.99), 26.46902820178302, 1e-7);
  EXPECT_NEAR(zipf_probability(0, 10'000'000'000, 0.99), 0.03778, 1e-5);
}

TEST(Zeta, HandlesTheEdges) {
  EXPECT_EQ(zeta(0, 0.5), 0.0);
  EXPECT_EQ(zipf_probability(10, 10, 0.5), 0.0);
  EXPECT_THROW(zeta(10, -0.1), std::invalid_argument);
  EXPECT_THROW(zeta(10, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
}

struct ZipfCase {
  std::uint64_t items;
  double theta;
};

class Zipf : public ::testing::TestWithParam<ZipfCase> {};

/// Ranks 0 .. 31 singly, then buckets that double in width up to the last rank.
TEST_P(Zipf, RanksFitTheirProbabilities) {
  const auto [items, theta] = GetParam();
  constexpr std::uint64_t draws = 400'000;
  const ZipfSampler sampler(items, theta);
  std::vector<std::uint64_t> ends;
  for (std::uint64_t end = 1; end < items; end = end < 32 ? end + 1 : end * 2) ends.push_back(end);
  ends.push_back(items);

  std::vector<double> probabilities;
  std::vector<std::uint64_t> kept;
  double below = 0.0;
  for (const std::uint64_t end : ends) {
    const double up_to = zeta(end, theta) / zeta(items, theta);
    const bool last = end == items;
    // Too thin for the test: leave it to the next bucket.
    const bool enough = (up_to - below) * draws > 20.0;
    if (enough) {
      kept.push_back(end);
      probabilities.push_back(up_to - below);
      below = up_to;
    } else if (last) {
      kept.back() = end;
      probabilities.back() += up_to - below;
    }
  }
  ASSERT_FALSE(kept.empty());

  Random random(7);
  std::vector<std::uint64_t> observed(kept.size());
  for (std::uint64_t i = 0; i < draws; ++i) {
    const std::uint64_t rank = sampler(random);
    ASSERT_LT(rank, items);
    std::size_t bucket = 0;
    while (rank >= kept[bucket]) ++bucket;
    ++observed[bucket];
  }
  if (kept.size() > 1) testing::expect_fit(observed, probabilities);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Zipf,
                         ::testing::Values(ZipfCase{10'000'000'000, 0.99},
                                           ZipfCase{10'000'000'000, 0.5}, ZipfCase{1'000'000, 0.99},
                                           ZipfCase{1'000'000, 1.0},
                                           ZipfCase{1'000'000, 1.0 + 1e-9},
                                           ZipfCase{30'000'000, 0.01}, ZipfCase{1000, 1.2},
                                           ZipfCase{10'000'000'000, 2.0}, ZipfCase{1000, 10.0},
                                           ZipfCase{2, 0.99}, ZipfCase{3, 1.5}, ZipfCase{1, 0.99},
                                           ZipfCase{ZipfSampler::max_items, 0.99}));

TEST(ZipfSampler, TailRanksAreEquallySmooth) {
  // Within the last tenth of the ranks the density hardly changes: neighbouring ranks must not
  // clump (they would if the uniform number had too few bits).
  constexpr std::uint64_t items = 1000;
  const ZipfSampler sampler(items, 0.99);
  std::vector<std::uint64_t> observed(100);
  std::vector<double> probabilities(100);
  double total = 0.0;
  for (std::uint64_t i = 0; i < 100; ++i) total += sampler.probability(900 + i);
  for (std::uint64_t i = 0; i < 100; ++i) probabilities[i] = sampler.probability(900 + i) / total;
  Random random(3);
  for (int i = 0; i < 1'000'000; ++i) {
    const std::uint64_t rank = sampler(random);
    if (rank >= 900) ++observed[rank - 900];
  }
  testing::expect_fit(observed, probabilities);
}

TEST(ZipfSampler, ProbabilityMatchesTheFreeFunction) {
  const ZipfSampler sampler(1'000'000, 0.7);
  for (const std::uint64_t rank : {0u, 1u, 999u, 999'999u, 1'000'000u}) {
    EXPECT_DOUBLE_EQ(sampler.probability(rank), zipf_probability(rank, 1'000'000, 0.7));
  }
}

TEST(ZipfSampler, RefusesNonsense) {
  EXPECT_THROW(ZipfSampler(0, 0.99), std::invalid_argument);
  EXPECT_THROW(ZipfSampler(ZipfSampler::max_items + 1, 0.99), std::invalid_argument);
  EXPECT_THROW(ZipfSampler(10, 0.0), std::invalid_argument);
  EXPECT_THROW(ZipfSampler(10, -1.0), std::invalid_argument);
  EXPECT_THROW(ZipfSampler(10, 11.0), std::invalid_argument);
  EXPECT_THROW(ZipfSampler(10, std::numeric_limits<double>::infinity()), std::invalid_argument);
  EXPECT_THROW(ZipfSampler(10, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss
