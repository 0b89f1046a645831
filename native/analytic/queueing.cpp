#include "analytic/queueing.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "analytic/fast_exp.hpp"
#include "workload/portable_math.hpp"

namespace pmoss::analytic {

double closed_throughput(const std::vector<double>& demand, const std::vector<double>& burst,
                         double population, double guess) {
  if (demand.empty()) throw std::invalid_argument("demand of 0 servers: must be of at least 1");
  const auto slowest = std::max_element(demand.begin(), demand.end());
  if (!(*slowest > 0.0)) return 0.0;
  // The slowest station alone bounds the throughput: with b its burst, it holds all queries at
  // most where r + b r^2 / (1 - r) is the population.
  const double b = burst[static_cast<std::size_t>(slowest - demand.begin())];
  const double root =
      std::sqrt((population + 1.0) * (population + 1.0) + 4.0 * (b - 1.0) * population);
  const double bound = 2.0 * population / (population + 1.0 + root) / *slowest;
  // The number of queries is convex in the throughput: Newton's method comes down to the root
  // from the right, and from the left its first step leads there or is cut at the bound.
  double x = guess > 0.0 ? std::min(guess, bound) : bound;
  for (int step = 0; step < 40; ++step) {
    double queued = 0.0;
    double slope = 0.0;
    for (std::size_t c = 0; c < demand.size(); ++c) {
      const double r = x * demand[c];
      const double free = 1.0 / (1.0 - r);
      queued += r + burst[c] * r * r * free;
      slope += demand[c] * (1.0 + burst[c] * (free * free - 1.0));
    }
    const double next = std::min(x - (queued - population) / slope, bound);
    const double change = next - x;
    x = next;
    if (std::abs(change) <= 1e-11 * x) break;
  }
  return x;
}

double mixture_quantile(const std::vector<double>& weight, const std::vector<double>& mean,
                        double quantile) {
  if (weight.size() != mean.size()) {
    throw std::invalid_argument(std::to_string(weight.size()) + " weights of " +
                                std::to_string(mean.size()) + " means: must be as many");
  }
  double total = 0.0;
  double high = 0.0;
  for (std::size_t c = 0; c < weight.size(); ++c) {
    total += weight[c];
    if (weight[c] > 0.0) high = std::max(high, mean[c]);
  }
  if (!(total > 0.0) || !(high > 0.0)) return 0.0;
  high *= -portable::log(1.0 - quantile) + 1.0;
  double low = 0.0;
  for (int step = 0; step < 60; ++step) {
    const double t = 0.5 * (low + high);
    double above = 0.0;
    for (std::size_t c = 0; c < weight.size(); ++c) {
      if (weight[c] > 0.0) above += weight[c] * exp_of_negative(-t / mean[c]);
    }
    (above / total > 1.0 - quantile ? low : high) = t;
  }
  return 0.5 * (low + high);
}

}  // namespace pmoss::analytic
