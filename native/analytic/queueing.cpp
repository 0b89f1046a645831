#include "analytic/queueing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "analytic/decay.hpp"
#include "analytic/fast_exp.hpp"
#include "workload/portable_math.hpp"

namespace pmoss::analytic {
namespace {

void require_as_many(const std::vector<double>& weight, const std::vector<double>& values) {
  if (weight.size() == values.size()) return;
  throw std::invalid_argument(std::to_string(weight.size()) + " weights of " +
                              std::to_string(values.size()) + " values: must be as many");
}

/// The probability that a normally distributed number lies more than z deviations above its mean,
/// within 1e-7 (Abramowitz and Stegun, 26.2.17).
double normal_above(double z) {
  const double t = 1.0 / (1.0 + 0.2316419 * std::abs(z));
  const double sum =
      t *
      (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  const double tail = 0.3989422804014327 * exp_of_negative(-0.5 * z * z) * sum;
  return z < 0.0 ? 1.0 - tail : tail;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum;
}

/// A mixture of exponential times: those parts that have a weight.
class Exponentials {
 public:
  Exponentials(const std::vector<double>& weight, const std::vector<double>& mean) {
    for (std::size_t c = 0; c < weight.size(); ++c) {
      if (!(weight[c] > 0.0)) continue;
      weight_.push_back(weight[c]);
      mean_.push_back(mean[c]);
    }
    mean_.resize((mean_.size() + row_lanes - 1) / row_lanes * row_lanes, 1.0);
    left_.resize(mean_.size());
  }

  /// The weight that lies above t.
  double above(double t) {
    decay_kernels().row_left(mean_.data(), mean_.size(), t, left_.data());
    double above = 0.0;
    for (std::size_t c = 0; c < weight_.size(); ++c) above += weight_[c] * left_[c];
    return above;
  }

  /// How fast above() falls at the t of its last call.
  double falls() const {
    double sum = 0.0;
    for (std::size_t c = 0; c < weight_.size(); ++c) sum += weight_[c] * left_[c] / mean_[c];
    return sum;
  }

 private:
  std::vector<double> weight_, mean_, left_;
};

/// Two times between which above() passes `wanted`, so far from both that rounding cannot hide it.
struct Passage {
  double low, high;
};

/// Of the falling and convex above(): Newton's steps from the left never pass the root.
Passage passage(Exponentials& parts, double wanted, double high) {
  constexpr double certain = 1e-10;  // above() is exact within 1e-11
  Passage bounds{0.0, high};
  double t = 0.0;
  for (int step = 0; step < 24; ++step) {
    const double above = parts.above(t);
    if (!(above > wanted * (1.0 + certain))) break;
    bounds.low = t;
    t += (above - wanted) / parts.falls();
  }
  for (const double beyond : {t * (1.0 + 1e-9), t * (1.0 + 1e-7)}) {
    if (!(beyond < high) || !(parts.above(beyond) < wanted * (1.0 - certain))) continue;
    bounds.high = beyond;
    break;
  }
  return bounds;
}

/// The same of normally distributed times.
double normal_parts_above(const std::vector<double>& weight, const std::vector<double>& mean,
                          const std::vector<double>& deviation, double t) {
  double above = 0.0;
  for (std::size_t c = 0; c < weight.size(); ++c) {
    if (!(weight[c] > 0.0)) continue;
    const double far = t - mean[c];
    if (deviation[c] > 0.0) {
      above += weight[c] * normal_above(far / deviation[c]);
    } else {
      above += far < 0.0 ? weight[c] : 0.0;
    }
  }
  return above;
}

/// Where the falling above(t) passes `wanted`, between 0 and `high`.
template <typename Above>
double where_above(double wanted, double high, Above above) {
  double low = 0.0;
  for (int step = 0; step < 60; ++step) {
    const double t = 0.5 * (low + high);
    if (t == low || t == high) break;  // neighbours
    (above(t) > wanted ? low : high) = t;
  }
  return 0.5 * (low + high);
}

}  // namespace

double closed_throughput(std::span<const double> demand, std::span<const double> burst,
                         double population, double guess) {
  if (demand.empty()) throw std::invalid_argument("demand of 0 servers: must be of at least 1");
  const DecayKernels& kernels = decay_kernels();
  const auto [longest, slowest] = kernels.greatest(demand.data(), demand.size());
  if (!(longest > 0.0)) return 0.0;
  // The slowest station alone bounds the throughput: with b its burst, it holds all queries at
  // most where r + b r^2 / (1 - r) is the population.
  const double b = burst[slowest];
  const double root =
      std::sqrt((population + 1.0) * (population + 1.0) + 4.0 * (b - 1.0) * population);
  const double bound = 2.0 * population / (population + 1.0 + root) / longest;
  // The number of queries is convex in the throughput: Newton's method comes down to the root
  // from the right, and from the left its first step leads there or is cut at the bound.
  double x = guess > 0.0 ? std::min(guess, bound) : bound;
  for (int step = 0; step < 40; ++step) {
    const Queued at = kernels.queue(demand.data(), burst.data(), demand.size(), x);
    const double next = std::min(x - (at.queries - population) / at.slope, bound);
    const double change = next - x;
    x = next;
    if (std::abs(change) <= 1e-11 * x) break;
  }
  return x;
}

double mixture_quantile(const std::vector<double>& weight, const std::vector<double>& mean,
                        double quantile) {
  require_as_many(weight, mean);
  double high = 0.0;
  for (std::size_t c = 0; c < weight.size(); ++c) {
    if (weight[c] > 0.0) high = std::max(high, mean[c]);
  }
  const double total = sum_of(weight);
  if (!(total > 0.0) || !(high > 0.0)) return 0.0;
  high *= -portable::log(1.0 - quantile) + 1.0;
  Exponentials parts(weight, mean);
  const double wanted = (1.0 - quantile) * total;
  const Passage bounds = passage(parts, wanted, high);
  // The same halving as without the passage, which spares most of its sums.
  return where_above(wanted, high, [&](double t) {
    if (t <= bounds.low) return std::numeric_limits<double>::infinity();
    return t >= bounds.high ? 0.0 : parts.above(t);
  });
}

double mixture_share_within(const std::vector<double>& weight, const std::vector<double>& mean,
                            double limit) {
  require_as_many(weight, mean);
  const double total = sum_of(weight);
  return total > 0.0 ? 1.0 - Exponentials(weight, mean).above(limit) / total : 1.0;
}

double normal_mixture_share_within(const std::vector<double>& weight,
                                   const std::vector<double>& mean,
                                   const std::vector<double>& deviation, double limit) {
  require_as_many(weight, mean);
  require_as_many(weight, deviation);
  const double total = sum_of(weight);
  return total > 0.0 ? 1.0 - normal_parts_above(weight, mean, deviation, limit) / total : 1.0;
}

double normal_mixture_quantile(const std::vector<double>& weight, const std::vector<double>& mean,
                               const std::vector<double>& deviation, double quantile) {
  require_as_many(weight, mean);
  require_as_many(weight, deviation);
  double high = 0.0;
  for (std::size_t c = 0; c < weight.size(); ++c) {
    if (weight[c] > 0.0) high = std::max(high, mean[c] + 8.0 * deviation[c]);
  }
  const double total = sum_of(weight);
  if (!(total > 0.0) || !(high > 0.0)) return 0.0;
  return where_above((1.0 - quantile) * total, high,
                     [&](double t) { return normal_parts_above(weight, mean, deviation, t); });
}

}  // namespace pmoss::analytic
