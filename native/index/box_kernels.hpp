// Which boxes of a node a rectangle touches, in several instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/search.hpp"
#include "workload/points.hpp"

namespace pmoss::index_detail {

/// Numbers in a cache line; arrays of coordinates begin at one and fill whole ones.
inline constexpr unsigned line_coordinates = 16;

/// Arrays of the four sides of boxes. For points, the low and the high sides are the same arrays.
struct Boxes {
  const std::uint32_t* x_low;
  const std::uint32_t* y_low;
  const std::uint32_t* x_high;
  const std::uint32_t* y_high;

  Rectangle operator[](unsigned i) const noexcept {
    return {relaxed_load(x_low[i]), relaxed_load(y_low[i]), relaxed_load(x_high[i]),
            relaxed_load(y_high[i])};
  }
};

/// Bit i is set if box i shares at least a point with the rectangle. The first `n` boxes are
/// tested, rounded up to whole lines; n is at most 64.
using BoxKernel = std::uint64_t (*)(const Boxes& boxes, unsigned n,
                                    const Rectangle& range) noexcept;

/// The same for points: box i is the point (x[i], y[i]). The range's borders are not crossed.
using PointKernel = std::uint64_t (*)(const std::uint32_t* x, const std::uint32_t* y, unsigned n,
                                      const Rectangle& range) noexcept;

/// Copies the words whose bits are set, in order, and returns the end of the copies. It may write
/// up to `copied_beyond` words behind them. The words begin at a cache line and fill whole ones.
using CopyKernel = std::uint64_t* (*)(const std::uint64_t* words, std::uint64_t hits,
                                      std::uint64_t* to) noexcept;
inline constexpr std::size_t copied_beyond = 8;

struct RangeKernels {
  BoxKernel boxes;
  PointKernel points;
  CopyKernel copy;
};

/// Those for the instruction set that set_search_isa() has chosen.
const RangeKernels& range_kernels() noexcept;
inline BoxKernel box_kernel() noexcept { return range_kernels().boxes; }

}  // namespace pmoss::index_detail
