// Seeded generators of our own instance: no global state, the same bits on every machine.
#pragma once

#include <cstdint>

namespace pmoss {

/// The finaliser of SplitMix64: a bijection of the 64-bit integers that scatters its input.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Upper half of a 64 x 64 bit product: maps a uniform 64-bit number onto [0, bound).
constexpr std::uint64_t scale64(std::uint64_t x, std::uint64_t bound) noexcept {
  __extension__ using wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<wide>(x) * bound) >> 64);
}

/// xoshiro256++ (Blackman and Vigna): fast, 256 bits of state, passes the usual batteries.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept {
    for (auto& word : state_) {
      seed = mix64(seed);
      word = seed;
    }
  }

  std::uint64_t next() noexcept {
    const std::uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  /// Uniform integer in [0, bound), bound > 0. The bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) noexcept { return scale64(next(), bound); }

  /// Uniform double in [0, 1), 53 bits.
  double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  static constexpr std::uint64_t rotate(std::uint64_t x, int k) noexcept {
    return (x << k) | (x >> (64 - k));
  }
  std::uint64_t state_[4];
};

}  // namespace pmoss
