// How the entries of a node that has one too many are shared between two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "workload/points.hpp"

namespace pmoss::index_detail {

struct RTreeEntry {
  Rectangle box;
  std::uint64_t word;
};

/// Two nodes' shares: entries 0 .. first - 1 and those from `first` on, with the boxes around them.
struct Shares {
  std::size_t first;
  Rectangle left;
  Rectangle right;
};

/// The R*-tree's rule (Beckmann et al., SIGMOD 1990): the axis is that on which the boxes of all
/// allowed splits have the smallest margins. On it the split is taken whose boxes overlap least,
/// then the one whose boxes cover least. Each part gets at least 2/5 of the entries, rounded down.
/// Sorts the entries, 2 to 65. They are ordered by the middles of their boxes, by one order instead
/// of the original's two. All instruction sets give the same.
Shares split_entries(std::span<RTreeEntry> entries) noexcept;

}  // namespace pmoss::index_detail
