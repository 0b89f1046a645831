// Exponential and logarithm from +, -, *, / only. The C library picks other code (fused
// multiply-add) on other CPUs, so its last bits differ between machines; these do not.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace pmoss::portable {

/// (exp(x) - 1) / x for |x| <= 0.35, by its Taylor series; 1 at x = 0.
inline double expm1_ratio_small(double x) noexcept {
  constexpr auto inverse_factorials = [] {
    std::array<double, 15> inverse{};
    double factorial = 1.0;  // exact in a double up to 18!
    for (std::size_t n = 1; n < inverse.size(); ++n) {
      factorial *= static_cast<double>(n);
      inverse[n] = 1.0 / factorial;
    }
    return inverse;
  }();
  double sum = 0.0;
  for (std::size_t n = inverse_factorials.size() - 1; n >= 1; --n) {
    sum = sum * x + inverse_factorials[n];
  }
  return sum;
}

/// log(1 + x) / x for -0.3 <= x <= 0.42, through log((1 + s) / (1 - s)); 1 at x = 0.
inline double log1p_ratio_small(double x) noexcept {
  const double s = x / (2.0 + x);
  const double z = s * s;
  double sum = 0.0;
  for (int n = 23; n >= 1; n -= 2) sum = sum * z + 1.0 / n;
  return 2.0 * sum / (2.0 + x);
}

/// exp(x), relative error below 4e-16 for |x| < 708; 0 below and infinite above that.
inline double exp(double x) noexcept {
  // Beyond, the exponent would wrap around to a negative or undefined number.
  if (x <= -708.0) return 0.0;
  if (x >= 709.0) return std::numeric_limits<double>::infinity();
  if (std::isnan(x)) return x;
  constexpr double ln2_high = 0x1.62e42fefa3800p-1;
  constexpr double ln2_low = 0x1.ef35793c76730p-45;
  const double k = std::floor(x * 1.4426950408889634 + 0.5);
  const double r = (x - k * ln2_high) - k * ln2_low;
  const double mantissa = 1.0 + r * expm1_ratio_small(r);
  const auto exponent = static_cast<std::uint64_t>(static_cast<std::int64_t>(k) + 1023);
  return mantissa * std::bit_cast<double>(exponent << 52);
}

/// log(x) for normal x > 0, relative error of a few units in the last place.
inline double log(double x) noexcept {
  constexpr double ln2_high = 0x1.62e42fefa3800p-1;
  constexpr double ln2_low = 0x1.ef35793c76730p-45;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double f = mantissa - 1.0;
  const auto e = static_cast<double>(exponent);
  return e * ln2_high + (f * log1p_ratio_small(f) + e * ln2_low);
}

/// (exp(x) - 1) / x without cancellation around 0.
inline double expm1_ratio(double x) noexcept {
  return x > -0.35 && x < 0.35 ? expm1_ratio_small(x) : (exp(x) - 1.0) / x;
}

/// log(1 + x) / x without cancellation around 0, for x > -1.
inline double log1p_ratio(double x) noexcept {
  return x > -0.29 && x < 0.41 ? log1p_ratio_small(x) : log(1.0 + x) / x;
}

/// x to the power of p, for normal x > 0.
inline double power(double x, double p) noexcept { return exp(p * log(x)); }

}  // namespace pmoss::portable
