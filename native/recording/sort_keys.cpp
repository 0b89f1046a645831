#include "recording/sort_keys.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace pmoss::recording {
namespace {

constexpr std::size_t few = 96;  // comparing is faster than counting digits
constexpr std::size_t many = 4096;

void sort_digits(std::uint64_t* keys, std::uint64_t* other, std::size_t n, unsigned low_bits,
                 bool into_other);

/// Sorts by the `digit_bits` bits above which nothing differs any more, then what lies in each
/// digit. `low_bits` is the number of bits that may still differ.
template <unsigned digit_bits>
void distribute(std::uint64_t* keys, std::uint64_t* other, std::size_t n, unsigned low_bits,
                bool into_other) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << digit_bits) - 1;
  const unsigned shift = low_bits > digit_bits ? low_bits - digit_bits : 0;
  std::array<std::size_t, mask + 1> counts{};
  for (std::size_t i = 0; i < n; ++i) ++counts[(keys[i] >> shift) & mask];
  std::array<std::size_t, mask + 1> places;
  std::size_t start = 0;
  for (std::size_t digit = 0; digit <= mask; ++digit) {
    places[digit] = start;
    start += counts[digit];
  }
  for (std::size_t i = 0; i < n; ++i) other[places[(keys[i] >> shift) & mask]++] = keys[i];
  start = 0;
  for (const std::size_t count : counts) {
    if (count > 0) sort_digits(other + start, keys + start, count, shift, !into_other);
    start += count;
  }
}

void sort_digits(std::uint64_t* keys, std::uint64_t* other, std::size_t n, unsigned low_bits,
                 bool into_other) {
  if (n > few && low_bits > 0) {
    if (n > many) {
      distribute<11>(keys, other, n, low_bits, into_other);
    } else {
      distribute<8>(keys, other, n, low_bits, into_other);
    }
    return;
  }
  if (low_bits > 0) std::sort(keys, keys + n);
  if (into_other) std::copy(keys, keys + n, other);
}

}  // namespace

void sort_keys(std::vector<std::uint64_t>& keys) {
  std::vector<std::uint64_t> scratch(keys.size());
  sort_keys(keys, scratch);
}

void sort_keys(std::span<std::uint64_t> keys, std::span<std::uint64_t> scratch) {
  sort_digits(keys.data(), scratch.data(), keys.size(), 64, false);
}

}  // namespace pmoss::recording
