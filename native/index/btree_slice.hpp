// What the tree keeps for each slice besides its root.
#pragma once

#include <atomic>
#include <cstdint>

#include "index/arena.hpp"
#include "index/btree.hpp"

namespace pmoss {

struct alignas(64) BTree::Slice {
  explicit Slice(bool huge_pages) : arena(huge_pages) {}
  SliceArena arena;
  std::atomic<std::uint64_t> size{0};
};

}  // namespace pmoss
