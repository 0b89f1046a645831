// A histogram of durations with logarithmic buckets: fixed memory, one increment per value.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace pmoss {

/// 32 buckets per power of two: a quantile is off by at most 1.6 %.
class Histogram {
 public:
  void add(std::uint64_t value, std::uint64_t times = 1) noexcept {
    counts_[bucket_of(value)] += times;
  }

  void merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }

  std::uint64_t count() const noexcept {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts_) sum += count;
    return sum;
  }

  /// The value below which the part `q` of all values lies (the middle of its bucket); 0 if empty.
  double quantile(double q) const noexcept {
    const std::uint64_t total = count();
    if (total == 0) return 0.0;
    auto rank = static_cast<std::uint64_t>(q * static_cast<double>(total));
    if (rank >= total) rank = total - 1;
    std::size_t bucket = 0;
    for (std::uint64_t passed = counts_[0]; passed <= rank; passed += counts_[bucket]) ++bucket;
    return middle_of(bucket);
  }

 private:
  static constexpr unsigned precision_bits = 5;
  static constexpr std::uint64_t steps = 1U << precision_bits;
  static constexpr std::size_t buckets = (64 - precision_bits + 1) * steps;

  // Small values have a bucket each; above, the leading bits choose the bucket.
  static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    if (value < steps) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - precision_bits - 1;
    return (shift + 1) * steps + ((value >> shift) & (steps - 1));
  }
  static double middle_of(std::size_t bucket) noexcept {
    if (bucket < 2 * steps) return static_cast<double>(bucket);
    const std::size_t shift = bucket / steps - 1;
    const auto width = static_cast<double>(std::uint64_t{1} << shift);
    return (static_cast<double>(steps + bucket % steps) + 0.5) * width;
  }

  std::array<std::uint64_t, buckets> counts_{};
};

}  // namespace pmoss
