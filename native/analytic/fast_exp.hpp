// exp(x) for x <= 0 in plain IEEE arithmetic: vectorises, and gives the same bits on every machine,
// which the C library's exp() does not (it picks fused multiply-add code at run time).
#pragma once

#include <bit>
#include <cstdint>

namespace pmoss::analytic {

/// Relative error below 1e-11 for x in [-690, 0]; smaller x give a value below 1e-299.
inline double exp_of_negative(double x) noexcept {
  x = x < -690.0 ? -690.0 : x;
  constexpr double log2_e = 1.4426950408889634;
  constexpr double ln_2_high = 0.693145751953125;
  constexpr double ln_2_low = 1.42860682030941723e-06;
  constexpr double round_to_integer = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = x * log2_e + round_to_integer;
  const double k = shifted - round_to_integer;
  const double r = (x - k * ln_2_high) - k * ln_2_low;
  // Taylor series to r^10, |r| <= 0.347.
  double p = 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const auto exponent = std::bit_cast<std::uint64_t>(shifted) << 52;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(p) + exponent);
}

}  // namespace pmoss::analytic
