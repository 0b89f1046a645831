// The inner loops of a scan, in several instruction sets, one of which is chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/search.hpp"

namespace pmoss::scan {

/// Values from `low` to `high`, both included; none where low > high.
struct Range {
  std::int32_t low = 0;
  std::int32_t high = 0;
};

/// Positions that a kernel may write beyond the matches it reports.
constexpr std::size_t kernel_slack = 16;

/// Writes the positions (`first` + index) of the values inside `range` in order and returns how
/// many there are. `values` need not be aligned. `positions` must have room for `rows` +
/// kernel_slack.
using Kernel = std::size_t (*)(const std::byte* values, std::size_t rows, Range range,
                               std::uint32_t first, std::uint32_t* positions) noexcept;

/// The kernel of an instruction set; throws std::invalid_argument if it is not supported here.
Kernel kernel_for(Isa isa);

}  // namespace pmoss::scan
