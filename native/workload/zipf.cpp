// Rejection-inversion and Euler-Maclaurin summation.
#include "workload/zipf.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "workload/portable_math.hpp"

namespace pmoss {
namespace {

/// The integral of x^-theta from 1 to x, also where theta is 1 or close to it.
double power_integral(double x, double theta) noexcept {
  const double log_x = portable::log(x);
  return log_x * portable::expm1_ratio((1.0 - theta) * log_x);
}

void check_theta(double theta, double lowest, const char* range) {
  if (!(theta >= lowest && theta <= 10.0)) {
    throw std::invalid_argument("theta is " + std::to_string(theta) + "; it must lie in " + range);
  }
}

}  // namespace

double zeta(std::uint64_t items, double theta) {
  check_theta(theta, 0.0, "[0, 10]");
  constexpr std::uint64_t head = 64;
  double sum = 0.0;
  // The smallest terms first, so that rounding errors stay small.
  for (std::uint64_t i = std::min(items, head - 1); i >= 1; --i) {
    sum += portable::power(static_cast<double>(i), -theta);
  }
  if (items < head) return sum;
  const auto first = static_cast<double>(head);
  const auto last = static_cast<double>(items);
  const double f_first = portable::power(first, -theta);
  const double f_last = portable::power(last, -theta);
  double tail = power_integral(last, theta) - power_integral(first, theta);
  tail += 0.5 * (f_first + f_last);
  const double slope = theta;
  tail += slope * (f_first / first - f_last / last) / 12.0;
  const double third = slope * (theta + 1.0) * (theta + 2.0);
  const double first2 = first * first;
  const double last2 = last * last;
  tail -= third * (f_first / (first2 * first) - f_last / (last2 * last)) / 720.0;
  const double fifth = third * (theta + 3.0) * (theta + 4.0);
  tail += fifth * (f_first / (first2 * first2 * first) - f_last / (last2 * last2 * last)) / 30240.0;
  return sum + tail;
}

double zipf_probability(std::uint64_t rank, std::uint64_t items, double theta) {
  if (rank >= items) return 0.0;
  return portable::power(static_cast<double>(rank) + 1.0, -theta) / zeta(items, theta);
}

ZipfSampler::ZipfSampler(std::uint64_t items, double theta) : items_(items), theta_(theta) {
  if (items == 0 || items > max_items) {
    throw std::invalid_argument("items is " + std::to_string(items) + "; it must lie in 1 .. " +
                                std::to_string(max_items));
  }
  check_theta(theta, 1e-6, "[1e-6, 10]");
  zeta_ = pmoss::zeta(items, theta);
  // The density is convex, so the band of width density(k) that ends at integral(k + 1/2) lies
  // within the image of (k - 1/2, k + 1/2]: accepting exactly that band gives rank k its share.
  low_ = integral(1.5) - 1.0;
  high_ = integral(static_cast<double>(items) + 0.5);
  accept_ = 2.0 - integral_inverse(integral(2.5) - density(2.0));
}

double ZipfSampler::density(double x) const noexcept { return portable::power(x, -theta_); }

double ZipfSampler::integral(double x) const noexcept { return power_integral(x, theta_); }

double ZipfSampler::integral_inverse(double u) const noexcept {
  // Rounding may push the argument to the pole of the logarithm; items beyond it are clamped.
  const double t = std::max(u * (1.0 - theta_), -1.0 + 0x1.0p-53);
  return portable::exp(u * portable::log1p_ratio(t));
}

std::uint64_t ZipfSampler::operator()(Random& random) const noexcept {
  const auto last = static_cast<double>(items_);
  for (;;) {
    const double u = high_ - random.uniform() * (high_ - low_);
    const double x = integral_inverse(u);
    const double k = std::clamp(std::floor(x + 0.5), 1.0, last);
    if (k - x <= accept_ || u >= integral(k + 0.5) - density(k)) {
      return static_cast<std::uint64_t>(k) - 1;
    }
  }
}

double ZipfSampler::probability(std::uint64_t rank) const noexcept {
  if (rank >= items_) return 0.0;
  return density(static_cast<double>(rank) + 1.0) / zeta_;
}

}  // namespace pmoss
