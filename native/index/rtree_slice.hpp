// What the R-tree keeps for each slice besides its root.
#pragma once

#include <atomic>
#include <cstdint>

#include "index/arena.hpp"
#include "index/rtree.hpp"

namespace pmoss {

struct alignas(64) RTree::Slice {
  explicit Slice(bool huge_pages) : arena(huge_pages) {}
  SliceArena arena;
  std::atomic<std::uint64_t> size{0};
};

}  // namespace pmoss
