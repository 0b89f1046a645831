// The translation caches of every core: two levels of recently used pages.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "machine/machine.hpp"
#include "simulator/set_associative_cache.hpp"

namespace pmoss::simulator {

/// A walk takes the machine's constant time instead of a touch of its page-table entry. The entries
/// of an index take 1/512 of its size (eight bytes for each 4 KiB), which last-level caches hold.
class Tlb {
 public:
  enum class Found : std::uint8_t { first_level, second_level, walk };

  /// One for each of `cores` physical cores. 1 of `page_sampling` pages of 4 KiB is recorded. The
  /// buffers are as much smaller as the share of the machine's pages with anything recorded.
  Tlb(const Machine& machine, std::size_t cores, std::uint32_t page_sampling)
      : has_first_(machine.dtlb_pages > 0.0),
        first_(cores, shape(machine, machine.dtlb_pages, page_sampling)),
        second_(cores, shape(machine, machine.tlb_pages, page_sampling)) {}

  /// Pages of 4 KiB in one of the machine's pages.
  static std::uint32_t base_pages(const Machine& machine) {
    return static_cast<std::uint32_t>(std::max(1.0, machine.page_bytes / 4096.0));
  }

  Found touch(std::size_t core, std::uint32_t page) noexcept {
    if (has_first_ && first_.access(core, page)) return Found::first_level;
    return second_.access(core, page) ? Found::second_level : Found::walk;
  }

  /// Has the host fetch what touch() will read.
  void prefetch(std::size_t core, std::uint32_t page) const noexcept {
    second_.prefetch(core, page);
  }

  void clear() noexcept {
    first_.clear();
    second_.clear();
  }

 private:
  static CacheShape shape(const Machine& machine, double entries, std::uint32_t page_sampling) {
    const double unrecorded = std::pow(1.0 - 1.0 / page_sampling, base_pages(machine));
    return CacheShape::of(entries * (1.0 - unrecorded), 8);
  }

  bool has_first_;
  SetAssociativeCache first_, second_;
};

}  // namespace pmoss::simulator
