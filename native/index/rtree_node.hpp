// The node layout of the R-tree and its locks.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "index/backoff.hpp"
#include "index/box_kernels.hpp"
#include "index/node.hpp"
#include "index/rtree_split.hpp"

namespace pmoss::index_detail {

/// The first line of a node. Behind it lie the coordinates of its entries, an array for each side
/// of their boxes (a leaf's are points: one for x, one for y), and then an array of 64-bit words:
/// the values of a leaf, the children of an inner node. Each array begins at a cache line.
///
/// Leaves only grow by entries at their end, and boxes only grow, except while a node is split. So
/// a reader need not notice any change but a split. The root counts the splits of its slice.
struct alignas(64) RTreeNode {
  std::atomic<std::uint64_t> splits;  // of a root: odd while a node is being split
  std::atomic<std::uint32_t> writer;  // of a root: 1 while a thread inserts into the slice
  std::atomic<std::uint32_t> count;
  std::uint32_t level;   // 0 is a leaf
  std::uint32_t stride;  // coordinates in an array: the capacity in whole lines

  // --- layout ---

  static unsigned stride_of(unsigned capacity) noexcept {
    return (capacity + line_coordinates - 1) / line_coordinates * line_coordinates;
  }
  static unsigned sides_of(unsigned level) noexcept { return level > 0 ? 4 : 2; }
  /// Bytes of the header and the coordinates: what a search reads of a node.
  static std::size_t search_bytes(unsigned level, unsigned stride) noexcept {
    return sizeof(RTreeNode) + sides_of(level) * stride * sizeof(std::uint32_t);
  }
  static std::size_t bytes(unsigned level, unsigned stride) noexcept {
    return search_bytes(level, stride) + stride * sizeof(std::uint64_t);
  }

  /// Side 0 is x_low, 1 y_low, 2 x_high, 3 y_high; of a leaf 0 is x and 1 is y.
  std::uint32_t* side(unsigned i) noexcept {
    return reinterpret_cast<std::uint32_t*>(this + 1) + i * relaxed_load(stride);
  }
  const std::uint32_t* side(unsigned i) const noexcept {
    return const_cast<RTreeNode*>(this)->side(i);
  }
  std::uint64_t* words() noexcept {
    return reinterpret_cast<std::uint64_t*>(side(sides_of(relaxed_load(level))));
  }
  const std::uint64_t* words() const noexcept { return const_cast<RTreeNode*>(this)->words(); }

  Boxes boxes() const noexcept {
    const unsigned high = relaxed_load(level) > 0 ? 2 : 0;
    return {side(0), side(1), side(high), side(high + 1)};
  }
  Rectangle box(unsigned i) const noexcept { return boxes()[i]; }

  static RTreeNode* as_node(std::uint64_t word) noexcept {
    return reinterpret_cast<RTreeNode*>(static_cast<std::uintptr_t>(word));
  }
  static std::uint64_t as_word(const RTreeNode* node) noexcept {
    return reinterpret_cast<std::uintptr_t>(node);
  }

  // --- reading ---

  /// The number of splits so far; waits while one goes on.
  std::uint64_t read_begin() const noexcept {
    std::uint64_t splits_read = splits.load(std::memory_order_acquire);
    for (Backoff backoff; splits_read & 1; splits_read = splits.load(std::memory_order_acquire)) {
      backoff.pause();
    }
    return splits_read;
  }
  bool read_valid(std::uint64_t splits_read) const noexcept {
    std::atomic_thread_fence(std::memory_order_acquire);
    return splits.load(std::memory_order_relaxed) == splits_read;
  }

  /// The entries that the rectangle touches, as bits. What was appended later may be missing.
  std::uint64_t matches(const Rectangle& range, BoxKernel kernel) const noexcept {
    const unsigned n = count.load(std::memory_order_acquire);
    return first_bits(kernel(boxes(), n, range), n);
  }

  /// The same for a leaf of a tree whose nodes all have this stride: its coordinates can be read
  /// before its header has come.
  std::uint64_t leaf_matches(const Rectangle& range, unsigned its_stride,
                             PointKernel kernel) const noexcept {
    const auto* const x = reinterpret_cast<const std::uint32_t*>(this + 1);
    const unsigned n = count.load(std::memory_order_acquire);
    return first_bits(kernel(x, x + its_stride, n, range), n);
  }
  const std::uint64_t* leaf_words(unsigned its_stride) const noexcept {
    return reinterpret_cast<const std::uint64_t*>(reinterpret_cast<const std::uint32_t*>(this + 1) +
                                                  std::size_t{2} * its_stride);
  }

  // --- writing: only by the slice's writer, or before the node is published ---

  /// Makes memory of any content a node without entries.
  void clear(unsigned its_level, unsigned its_stride) noexcept {
    splits.store(0, std::memory_order_relaxed);
    writer.store(0, std::memory_order_relaxed);
    count.store(0, std::memory_order_relaxed);
    relaxed_store(level, static_cast<std::uint32_t>(its_level));
    relaxed_store(stride, static_cast<std::uint32_t>(its_stride));
  }

  void lock() noexcept {
    for (Backoff backoff; writer.exchange(1, std::memory_order_acquire) != 0;) backoff.pause();
  }
  void unlock() noexcept { writer.store(0, std::memory_order_release); }

  void begin_split() noexcept {
    splits.store(splits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // No later store may be seen before this one.
    std::atomic_thread_fence(std::memory_order_release);
  }
  void end_split() noexcept {
    splits.store(splits.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  void set_box(unsigned i, const Rectangle& box) noexcept {
    relaxed_store(side(0)[i], box.x_low);
    relaxed_store(side(1)[i], box.y_low);
    if (level == 0) return;
    relaxed_store(side(2)[i], box.x_high);
    relaxed_store(side(3)[i], box.y_high);
  }

  void set_entry(unsigned i, const Rectangle& box, std::uint64_t word) noexcept {
    set_box(i, box);
    relaxed_store(words()[i], word);
  }

  /// Makes these its entries.
  void set_entries(std::span<const RTreeEntry> entries) noexcept {
    const bool inner = level > 0;
    std::uint32_t* const x_low = side(0);
    std::uint32_t* const y_low = side(1);
    std::uint32_t* const x_high = side(inner ? 2 : 0);
    std::uint32_t* const y_high = side(inner ? 3 : 1);
    std::uint64_t* const word = words();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      relaxed_store(x_low[i], entries[i].box.x_low);
      relaxed_store(y_low[i], entries[i].box.y_low);
      relaxed_store(word[i], entries[i].word);
      if (!inner) continue;
      relaxed_store(x_high[i], entries[i].box.x_high);
      relaxed_store(y_high[i], entries[i].box.y_high);
    }
    count.store(static_cast<std::uint32_t>(entries.size()), std::memory_order_release);
  }

  void append(const Rectangle& box, std::uint64_t word) noexcept {
    const unsigned n = count.load(std::memory_order_relaxed);
    set_entry(n, box, word);
    count.store(n + 1, std::memory_order_release);
  }

 private:
  static std::uint64_t first_bits(std::uint64_t bits, unsigned n) noexcept {
    return n < 64 ? bits & ((std::uint64_t{1} << n) - 1) : bits;
  }
};

static_assert(sizeof(RTreeNode) == 64);

/// Fetches the first bytes of a node.
inline void fetch_node(const RTreeNode* node, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += line_bytes) {
    __builtin_prefetch(reinterpret_cast<const char*>(node) + at);
  }
}

/// The smallest box around both.
inline Rectangle joined(const Rectangle& a, const Rectangle& b) noexcept {
  return {std::min(a.x_low, b.x_low), std::min(a.y_low, b.y_low), std::max(a.x_high, b.x_high),
          std::max(a.y_high, b.y_high)};
}

/// The box around all entries of a node that has some.
inline Rectangle cover(const RTreeNode& node) noexcept {
  const Boxes boxes = node.boxes();
  Rectangle box = boxes[0];
  const unsigned n = node.count.load(std::memory_order_relaxed);
  for (unsigned i = 1; i < n; ++i) box = joined(box, boxes[i]);
  return box;
}

}  // namespace pmoss::index_detail
