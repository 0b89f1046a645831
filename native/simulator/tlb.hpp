// The translation caches of every core: two levels of recently used pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "machine/machine.hpp"
#include "simulator/set_associative_cache.hpp"

namespace pmoss::simulator {

class Tlb {
 public:
  enum class Found : std::uint8_t { first_level, second_level, walk };

  /// One for each of `cores` physical cores, shrunk to the 1 of `page_sampling` pages recorded.
  Tlb(const Machine& machine, std::size_t cores, std::uint32_t page_sampling)
      : has_first_(machine.dtlb_pages > 0.0),
        first_(cores, CacheShape::of(machine.dtlb_pages / page_sampling, ways)),
        second_(cores, CacheShape::of(machine.tlb_pages / page_sampling, ways)) {}

  Found touch(std::size_t core, std::uint32_t page) noexcept {
    if (has_first_) {
      if (first_.touch(core, page)) return Found::first_level;
      first_.insert(core, page);
    }
    if (second_.touch(core, page)) return Found::second_level;
    second_.insert(core, page);
    return Found::walk;
  }

  void clear() noexcept {
    first_.clear();
    second_.clear();
  }

 private:
  static constexpr int ways = 8;
  bool has_first_;
  SetAssociativeCache first_, second_;
};

}  // namespace pmoss::simulator
