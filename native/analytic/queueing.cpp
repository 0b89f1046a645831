#include "analytic/queueing.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "analytic/fast_exp.hpp"
#include "workload/portable_math.hpp"

namespace pmoss::analytic {

double closed_throughput(const std::vector<double>& demand, double population) {
  if (demand.empty()) throw std::invalid_argument("demand of 0 servers: must be of at least 1");
  const double largest = *std::max_element(demand.begin(), demand.end());
  if (!(largest > 0.0)) return 0.0;
  // The bottleneck alone bounds the throughput from above, and the function is convex there, so
  // Newton's method comes down to the root without overshooting.
  double x = population / ((population + 1.0) * largest);
  for (int step = 0; step < 24; ++step) {
    double queued = 0.0;
    double slope = 0.0;
    for (const double d : demand) {
      const double free = 1.0 / (1.0 - x * d);
      queued += x * d * free;
      slope += d * free * free;
    }
    const double change = (queued - population) / slope;
    x -= change;
    if (std::abs(change) <= 1e-12 * x) break;
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
