// Measurement noise: a seeded stream of factors with mean 1. The bits are those of NumPy's
// default_rng() with the same seed, whose draws pmoss_env.noise turns into factors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pmoss::environment {

// 128-bit integers are an extension of the compilers that we have.
__extension__ using Wide = unsigned __int128;

/// O'Neill's PCG XSL RR 128/64, seeded as NumPy's SeedSequence seeds it.
class UniformStream {
 public:
  /// Whole numbers that name the stream, least first.
  explicit UniformStream(std::span<const std::uint64_t> seed);

  /// The next number in [0, 1).
  double next() noexcept;
  /// The stream as it is that many numbers later.
  UniformStream after(std::uint64_t numbers) const noexcept;

 private:
  Wide state_ = 0, increment_ = 0;
};

/// Factors near 1: the sum of some uniform numbers is close to a normal one.
class NoiseStream {
 public:
  /// `strength`: 1 is as on hardware; not negative.
  NoiseStream(double strength, std::span<const std::uint64_t> seed)
      : strength_(strength), uniforms_(seed) {}

  /// The factor of one reading with such a coefficient of variation.
  double factor(double variation);
  /// `out`: [row][column], one factor for each; `variations`: per column.
  void factors(std::span<const double> variations, std::span<double> out);

 private:
  double factor_of(double scaled, double sum) const noexcept;

  double strength_;
  UniformStream uniforms_;
};

}  // namespace pmoss::environment
