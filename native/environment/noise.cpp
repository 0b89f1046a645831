#include "environment/noise.hpp"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace pmoss::environment {
namespace {

/// This many uniform numbers have a sum of variance 1.
constexpr std::size_t uniforms_per_factor = 12;
/// No reading falls below this share of the true value.
constexpr double least_factor = 0.01;

constexpr std::size_t pool_words = 4;
using Pool = std::array<std::uint32_t, pool_words>;

/// The hash of SeedSequence: its constant changes with every word.
class WordHash {
 public:
  WordHash(std::uint32_t constant, std::uint32_t factor) : constant_(constant), factor_(factor) {}
  std::uint32_t operator()(std::uint32_t word) noexcept {
    word ^= constant_;
    constant_ *= factor_;
    word *= constant_;
    return word ^ (word >> 16U);
  }

 private:
  std::uint32_t constant_, factor_;
};

std::uint32_t mixed(std::uint32_t a, std::uint32_t b) noexcept {
  const std::uint32_t word = 0xca01f9ddU * a - 0x4973f715U * b;
  return word ^ (word >> 16U);
}

Pool pool_of(std::span<const std::uint64_t> seed) {
  std::vector<std::uint32_t> words;
  for (std::uint64_t number : seed) {
    do {
      words.push_back(static_cast<std::uint32_t>(number));
      number >>= 32U;
    } while (number != 0);
  }
  WordHash hash(0x43b0d7e5U, 0x931e8875U);
  Pool pool{};
  for (std::size_t i = 0; i < pool_words; ++i) pool[i] = hash(i < words.size() ? words[i] : 0U);
  for (std::size_t from = 0; from < pool_words; ++from) {
    for (std::size_t to = 0; to < pool_words; ++to) {
      if (from != to) pool[to] = mixed(pool[to], hash(pool[from]));
    }
  }
  for (std::size_t from = pool_words; from < words.size(); ++from) {
    for (std::uint32_t& to : pool) to = mixed(to, hash(words[from]));
  }
  return pool;
}

std::array<std::uint64_t, 4> seeds_of(std::span<const std::uint64_t> seed) {
  const Pool pool = pool_of(seed);
  WordHash hash(0x8b51f9ddU, 0x58f38dedU);
  std::array<std::uint64_t, 4> result{};
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::uint64_t low = hash(pool[(2 * i) % pool_words]);
    const std::uint64_t high = hash(pool[(2 * i + 1) % pool_words]);
    result[i] = low | (high << 32U);
  }
  return result;
}

constexpr Wide joined(std::uint64_t high, std::uint64_t low) {
  return (static_cast<Wide>(high) << 64U) | low;
}

constexpr Wide multiplier = joined(0x2360ed051fc65da4U, 0x4385df649fccf645U);

}  // namespace

UniformStream::UniformStream(std::span<const std::uint64_t> seed) {
  const auto [state_high, state_low, sequence_high, sequence_low] = seeds_of(seed);
  increment_ = (joined(sequence_high, sequence_low) << 1U) | 1U;
  state_ = (increment_ + joined(state_high, state_low)) * multiplier + increment_;
}

double UniformStream::next() noexcept {
  state_ = state_ * multiplier + increment_;
  const auto high = static_cast<std::uint64_t>(state_ >> 64U);
  const std::uint64_t bits =
      std::rotr(high ^ static_cast<std::uint64_t>(state_), static_cast<int>(high >> 58U));
  return static_cast<double>(bits >> 11U) * 0x1p-53;
}

UniformStream UniformStream::after(std::uint64_t numbers) const noexcept {
  // n steps are one step with another multiplier and increment, found by doubling.
  Wide factor = 1, added = 0, step_factor = multiplier, step_added = increment_;
  for (; numbers != 0; numbers >>= 1U) {
    if ((numbers & 1U) != 0) {
      factor *= step_factor;
      added = added * step_factor + step_added;
    }
    step_added *= step_factor + 1;
    step_factor *= step_factor;
  }
  UniformStream result = *this;
  result.state_ = state_ * factor + added;
  return result;
}

double NoiseStream::factor_of(double scaled, double sum) const noexcept {
  const double deviation = sum - static_cast<double>(uniforms_per_factor) / 2.0;
  return std::max(1.0 + scaled * deviation, least_factor);
}

double NoiseStream::factor(double variation) {
  double sum = 0.0;
  for (std::size_t i = 0; i < uniforms_per_factor; ++i) sum += uniforms_.next();
  return factor_of(strength_ * variation, sum);
}

void NoiseStream::factors(std::span<const double> variations, std::span<double> out) {
  // The first number of all factors is drawn first, then the second of all. A number waits for the
  // one before it, so the twelve parts of the stream are drawn side by side.
  const auto part = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array{uniforms_.after(I * out.size())...};
  };
  auto parts = part(std::make_index_sequence<uniforms_per_factor>());
  for (std::size_t at = 0, column = 0; at < out.size(); ++at) {
    double sum = 0.0;
    for (UniformStream& uniforms : parts) sum += uniforms.next();
    out[at] = factor_of(strength_ * variations[column], sum);
    if (++column == variations.size()) column = 0;
  }
  uniforms_ = parts.back();
}

}  // namespace pmoss::environment
