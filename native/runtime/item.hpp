// One query on its way from a router to a worker: 16 bytes, four to a cache line.
#pragma once

#include <cstdint>

#include "workload/generator.hpp"

namespace pmoss::runtime {

/// The slice is not sent: it follows from the key with one multiplication.
class Item {
 public:
  static constexpr std::uint32_t max_scan_length = (1U << 16) - 1;

  Item() noexcept = default;
  /// `stamp` is the query's start in clock ticks since the measurement began; 46 bits of it are
  /// kept.
  Item(const Operation& operation, std::uint64_t stamp) noexcept
      : key_(operation.key),
        rest_((stamp << stamp_shift) | (std::uint64_t{operation.scan_length} << length_shift) |
              static_cast<std::uint64_t>(operation.kind)) {}

  std::uint64_t key() const noexcept { return key_; }
  std::uint64_t stamp() const noexcept { return rest_ >> stamp_shift; }
  /// Ticks from its start to `now`, which count from the same moment as the stamp. Right for ages
  /// of some hours at the rate of any clock in use, however long the run has been. Clocks of two
  /// cores may differ by a few ticks: an age below 0 is 0.
  std::uint64_t age(std::uint64_t now) const noexcept {
    constexpr std::uint64_t mask = ~std::uint64_t{0} >> stamp_shift;
    const std::uint64_t ticks = (now - stamp()) & mask;
    return ticks <= mask / 2 ? ticks : 0;
  }
  std::uint32_t scan_length() const noexcept {
    return static_cast<std::uint32_t>(rest_ >> length_shift) & max_scan_length;
  }
  Operation::Kind kind() const noexcept { return static_cast<Operation::Kind>(rest_ & 3U); }

 private:
  static constexpr unsigned length_shift = 2;
  static constexpr unsigned stamp_shift = 18;
  std::uint64_t key_ = 0;
  std::uint64_t rest_ = 0;
};
static_assert(sizeof(Item) == 16);

}  // namespace pmoss::runtime
