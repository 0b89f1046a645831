#include "analytic/queueing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "analytic/fast_exp.hpp"
#include "workload/portable_math.hpp"
#include "workload/random.hpp"

namespace pmoss::analytic {
namespace {

std::vector<double> exponential(const std::vector<double>& demand) {
  return std::vector<double>(demand.size(), 1.0);
}

// Exact mean value analysis of a closed network of single servers, the recursion over populations.
double exact_mva(const std::vector<double>& demand, int population) {
  std::vector<double> queue(demand.size(), 0.0);
  double x = 0.0;
  for (int n = 1; n <= population; ++n) {
    double response = 0.0;
    for (std::size_t c = 0; c < demand.size(); ++c) response += demand[c] * (1.0 + queue[c]);
    x = n / response;
    for (std::size_t c = 0; c < demand.size(); ++c) {
      queue[c] = x * demand[c] * (1.0 + queue[c]);
    }
  }
  return x;
}

TEST(ClosedThroughput, AgreesWithExactMeanValueAnalysis) {
  Random random(7);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> demand(40);
    for (auto& d : demand) d = 0.1 + random.uniform();
    const int population = 32 * 40;
    EXPECT_NEAR(closed_throughput(demand, exponential(demand), population, 0.0) /
                    exact_mva(demand, population),
                1.0, 0.01);
  }
}

TEST(ClosedThroughput, BalancedStationsHaveTheClosedForm) {
  const std::vector<double> demand(56, 0.25);
  const double n = 32 * 56;
  // rho / (1 - rho) = n / 56 at every station.
  EXPECT_NEAR(closed_throughput(demand, exponential(demand), n, 0.0), n / (n + 56.0) / 0.25, 1e-9);
}

TEST(ClosedThroughput, IsBoundedByTheBottleneckAndReachesIt) {
  const std::vector<double> demand{0.1, 0.1, 1.0};
  const double x = closed_throughput(demand, exponential(demand), 1e6, 0.0);
  EXPECT_LT(x, 1.0);
  EXPECT_GT(x, 0.99999);
}

TEST(ClosedThroughput, IsZeroWithoutDemand) {
  const std::vector<double> idle(2, 0.0);
  EXPECT_EQ(closed_throughput(idle, exponential(idle), 10.0, 0.0), 0.0);
}

TEST(Queueing, RefusesWhatMakesNoSense) {
  EXPECT_THROW(closed_throughput({}, {}, 10.0, 0.0), std::invalid_argument);
  EXPECT_THROW(mixture_quantile({1.0, 1.0}, {1.0}, 0.5), std::invalid_argument);
}

TEST(MixtureQuantile, OfOneExponentialIsItsClosedForm) {
  EXPECT_NEAR(mixture_quantile({2.0}, {3.0}, 0.99), 3.0 * std::log(100.0), 1e-6);
  EXPECT_NEAR(mixture_quantile({2.0, 0.0}, {3.0, 50.0}, 0.5), 3.0 * std::log(2.0), 1e-6);
}

TEST(NormalMixtureQuantile, OfOneIsItsQuantile) {
  EXPECT_NEAR(normal_mixture_quantile({2.0}, {10.0}, {3.0}, 0.99), 10.0 + 2.326348 * 3.0, 1e-4);
  EXPECT_NEAR(normal_mixture_quantile({1.0}, {10.0}, {0.0}, 0.99), 10.0, 1e-9);
  EXPECT_NEAR(normal_mixture_quantile({1.0, 1.0}, {5.0, 7.0}, {1.0, 1.0}, 0.5), 6.0, 1e-6);
}

TEST(MixtureQuantile, OfTwoSolvesTheMixture) {
  const double t = mixture_quantile({1.0, 3.0}, {1.0, 10.0}, 0.9);
  EXPECT_NEAR(0.25 * std::exp(-t) + 0.75 * std::exp(-t / 10.0), 0.1, 1e-9);
}

// What mixture_quantile() spares must not show.
double halved_quantile(const std::vector<double>& weight, const std::vector<double>& mean,
                       double quantile) {
  double total = 0.0, low = 0.0, high = 0.0;
  for (std::size_t c = 0; c < weight.size(); ++c) {
    total += weight[c];
    high = std::max(high, mean[c]);
  }
  high *= -portable::log(1.0 - quantile) + 1.0;
  for (int step = 0; step < 60; ++step) {
    const double t = 0.5 * (low + high);
    double above = 0.0;
    for (std::size_t c = 0; c < weight.size(); ++c) {
      above += weight[c] * exp_of_negative(-t / mean[c]);
    }
    (above > (1.0 - quantile) * total ? low : high) = t;
  }
  return 0.5 * (low + high);
}

TEST(MixtureQuantile, HasTheBitsOfPlainHalving) {
  Random random(3);
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<double> weight(1 + random.below(60)), mean(weight.size());
    // Means far apart leave a plateau between them.
    const double spread = trial % 3 == 0 ? 0.0 : trial % 3 == 1 ? 3.0 : 30.0;
    for (double& w : weight) w = 0.01 + random.uniform();
    for (double& m : mean) m = portable::exp(spread * (random.uniform() - 0.5));
    for (const double quantile : {0.01, 0.5, 0.99, 0.999999}) {
      ASSERT_EQ(mixture_quantile(weight, mean, quantile), halved_quantile(weight, mean, quantile))
          << trial << ": " << quantile;
    }
  }
}

}  // namespace
}  // namespace pmoss::analytic
