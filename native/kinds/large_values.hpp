// Trees whose values are larger than a word. The tree holds where each value lies.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "index/backoff.hpp"
#include "index/btree.hpp"
#include "index/rtree.hpp"
#include "kinds/served_btree.hpp"
#include "runtime/worker.hpp"

namespace pmoss::kinds {

/// Of one slice: the nodes of its tree, and the blocks of its values in memory of their own.
class ValuedSlice final : public numa::PlacedMemory {
 public:
  ValuedSlice(SliceMemory& nodes, std::shared_ptr<ChunkPool> pool, const numa::Placement& placement)
      : nodes_(nodes), values_(std::move(pool), placement) {}

  /// Throws std::bad_alloc.
  std::uint64_t* allocate(std::size_t bytes) {
    return static_cast<std::uint64_t*>(values_.current().allocate(bytes));
  }

  numa::ResidentPages resident_pages() const override {
    numa::ResidentPages pages = nodes_.resident_pages();
    pages += values_.resident_pages();
    return pages;
  }
  numa::PageMove move_pages(int node) override {
    numa::PageMove move = nodes_.move_pages(node);
    move += values_.move_pages(node);
    return move;
  }
  int place_from_now_on(const numa::Placement& placement) override {
    const int of_nodes = nodes_.place_from_now_on(placement);
    const int of_values = values_.place_from_now_on(placement);
    return of_nodes != 0 ? of_nodes : of_values;
  }
  int placement_error() const override {
    const int of_nodes = nodes_.placement_error();
    return of_nodes != 0 ? of_nodes : values_.placement_error();
  }
  void free_spare() {
    nodes_.free_spare();
    values_.free_spare();
  }

 private:
  SliceMemory& nodes_;
  SliceMemory values_;
};

/// A value is a block: its version, and words that all hold the same number. That number is what
/// callers read and write as the value. Each read takes all words, and each write writes them.
///
/// Blocks stay where they are: a slice moves by its pages. A reader takes no lock. It reads again
/// if the version was odd, or has changed (as a node of the tree). Nothing frees a block before the
/// tree ends.
class ValueBlocks {
 public:
  /// `tree` must outlive them. `value_bytes`: a multiple of 8.
  template <class Tree>
  ValueBlocks(Tree& tree, bool huge_pages, const numa::Placement& placement,
              std::uint32_t value_bytes)
      : words_(value_bytes / sizeof(std::uint64_t)) {
    const auto pool = std::make_shared<ChunkPool>(huge_pages);
    for (std::uint32_t slice = 0; slice < tree.slices(); ++slice) {
      memory_.push_back(std::make_unique<ValuedSlice>(tree.memory(slice), pool, placement));
    }
  }

  /// Bytes of a block, in whole lines.
  static constexpr std::size_t bytes(std::uint32_t value_bytes) noexcept {
    return (sizeof(std::uint64_t) + value_bytes + 63) / 64 * 64;
  }

  ValuedSlice& memory(std::uint32_t slice) { return *memory_.at(slice); }
  const ValuedSlice& memory(std::uint32_t slice) const { return *memory_.at(slice); }

  static std::uint64_t* at(std::uint64_t address) noexcept {
    return reinterpret_cast<std::uint64_t*>(address);
  }

  /// A new block, as the number that the tree holds. Throws std::bad_alloc.
  std::uint64_t create(std::uint32_t slice, std::uint64_t value) {
    std::uint64_t* const block = memory_[slice]->allocate((words_ + 1) * sizeof(std::uint64_t));
    Word(block[0]).store(0, std::memory_order_relaxed);
    for (std::size_t i = 1; i <= words_; ++i) {
      Word(block[i]).store(value, std::memory_order_relaxed);
    }
    return reinterpret_cast<std::uint64_t>(block);
  }

  void fetch(const std::uint64_t* block) const noexcept {
    for (std::size_t i = 0; i <= words_; i += 8) __builtin_prefetch(block + i);
  }

  // Words are stored with release and loaded with acquire. A reader that sees a written word also
  // sees, afterwards, that its version was odd or has grown.
  std::uint64_t read(std::uint64_t* block) const noexcept {
    for (Backoff backoff;; backoff.pause()) {
      const std::uint64_t version = Word(block[0]).load(std::memory_order_acquire);
      if (version % 2 != 0) continue;
      const std::uint64_t value = Word(block[1]).load(std::memory_order_acquire);
      std::uint64_t different = 0;
      for (std::size_t i = 2; i <= words_; ++i) {
        different |= Word(block[i]).load(std::memory_order_acquire) ^ value;
      }
      // A value that is not whole is another one to every caller.
      if (Word(block[0]).load(std::memory_order_relaxed) == version) return value ^ different;
    }
  }

  void write(std::uint64_t* block, std::uint64_t value) const noexcept {
    const Word version(block[0]);
    std::uint64_t before = version.load(std::memory_order_relaxed);
    for (Backoff backoff; before % 2 != 0 || !version.compare_exchange_weak(
                                                 before, before + 1, std::memory_order_acquire,
                                                 std::memory_order_relaxed);
         backoff.pause()) {
      before = version.load(std::memory_order_relaxed);
    }
    for (std::size_t i = 1; i <= words_; ++i) {
      Word(block[i]).store(value, std::memory_order_release);
    }
    version.store(before + 2, std::memory_order_release);
  }

  /// Puts the values in the place of their blocks.
  std::size_t read_all(std::uint64_t* values, std::size_t count) const noexcept {
    constexpr std::size_t ahead = 4;
    for (std::size_t i = 0; i < count; ++i) {
      if (i + ahead < count) fetch(at(values[i + ahead]));
      values[i] = read(at(values[i]));
    }
    return count;
  }

 private:
  using Word = std::atomic_ref<std::uint64_t>;

  std::size_t words_;
  std::vector<std::unique_ptr<ValuedSlice>> memory_;
};

/// A B+-tree of such values.
class BTreeOfValues {
 public:
  struct Options {
    BTree::Options tree;
    std::uint32_t value_bytes = 64;  ///< a multiple of 8
  };
  /// What BTree says of a place, and the block of the key; null without it.
  struct Place {
    BTree::Place node;
    std::uint64_t* block = nullptr;
  };
  static constexpr std::size_t fetched_ahead = BTree::fetched_ahead;

  explicit BTreeOfValues(const Options& options)
      : tree_(options.tree),
        blocks_(tree_, options.tree.huge_pages, options.tree.placement, options.value_bytes) {}

  const BTree& keys() const noexcept { return tree_; }
  std::uint32_t slices() const noexcept { return tree_.slices(); }
  std::uint64_t size() const noexcept { return tree_.size(); }
  bool is_new(std::uint32_t slice) const { return tree_.is_new(slice); }
  ValuedSlice& memory(std::uint32_t slice) { return blocks_.memory(slice); }
  const ValuedSlice& memory(std::uint32_t slice) const { return blocks_.memory(slice); }
  RetiredArenas& retired() noexcept { return tree_.retired(); }

  bool lookup(const EpochGuard& guard, std::uint64_t key, std::uint64_t& value) const noexcept {
    std::uint64_t at = 0;
    if (!tree_.lookup(guard, key, at)) return false;
    value = blocks_.read(ValueBlocks::at(at));
    return true;
  }
  bool lookup(std::uint64_t key, std::uint64_t& value) const noexcept {
    return lookup(EpochGuard(), key, value);
  }
  /// Fetches the blocks, too. `values` are left to read().
  std::size_t lookup_batch(const EpochGuard& guard, const std::uint64_t* keys, std::size_t n,
                           std::uint64_t* values, bool* found, Place* places) const noexcept {
    BTree::Place nodes[runtime::Worker::max_batch];
    const std::size_t count = tree_.lookup_batch(guard, keys, n, values, found, nodes);
    for (std::size_t i = 0; i < n; ++i) {
      places[i] = {nodes[i], found[i] ? ValueBlocks::at(values[i]) : nullptr};
      if (found[i]) blocks_.fetch(places[i].block);
    }
    return count;
  }
  /// The value at a place where the key is.
  std::uint64_t read(const Place& place) const noexcept { return blocks_.read(place.block); }

  bool insert(const EpochGuard& guard, std::uint64_t key, std::uint64_t value) {
    if (update(guard, key, value)) return false;
    return tree_.insert(guard, key, new_block(key, value));
  }
  bool insert(std::uint64_t key, std::uint64_t value) { return insert(EpochGuard(), key, value); }
  bool insert(const EpochGuard& guard, const Place& place, std::uint64_t key, std::uint64_t value) {
    if (place.block == nullptr) {
      return tree_.insert(guard, place.node, key, new_block(key, value));
    }
    blocks_.write(place.block, value);
    return false;
  }
  std::size_t insert_batch(const std::uint64_t* keys, const std::uint64_t* values, std::size_t n) {
    std::size_t added = 0;
    for (std::size_t i = 0; i < n; ++i) added += insert(keys[i], values[i]) ? 1 : 0;
    return added;
  }

  bool update(const EpochGuard& guard, std::uint64_t key, std::uint64_t value) noexcept {
    std::uint64_t at = 0;
    if (!tree_.lookup(guard, key, at)) return false;
    blocks_.write(ValueBlocks::at(at), value);
    return true;
  }
  bool update(std::uint64_t key, std::uint64_t value) noexcept {
    return update(EpochGuard(), key, value);
  }
  bool update(const EpochGuard& guard, const Place& place, std::uint64_t key,
              std::uint64_t value) noexcept {
    if (place.block == nullptr) return update(guard, key, value);
    blocks_.write(place.block, value);
    return true;
  }

  std::size_t scan(const EpochGuard& guard, std::uint64_t first, std::size_t limit,
                   std::uint64_t* keys, std::uint64_t* values) const noexcept {
    return blocks_.read_all(values, tree_.scan(guard, first, limit, keys, values));
  }
  std::size_t scan(const EpochGuard& guard, const Place& place, std::uint64_t first,
                   std::size_t limit, std::uint64_t* keys, std::uint64_t* values) const noexcept {
    return blocks_.read_all(values, tree_.scan(guard, place.node, first, limit, keys, values));
  }
  void fetch_to_insert(const Place& place) const noexcept { tree_.fetch_to_insert(place.node); }
  void fetch_to_scan(const Place& place, std::size_t limit) const noexcept {
    tree_.fetch_to_scan(place.node, limit);
  }

  /// As BTree's.
  void bulk_load(std::uint32_t first, std::uint32_t last, std::span<const std::uint64_t> keys,
                 std::span<const std::uint64_t> values, std::uint64_t seed) {
    std::vector<std::uint64_t> blocks(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) blocks[i] = new_block(keys[i], values[i]);
    tree_.bulk_load(first, last, keys, blocks, seed);
  }

 private:
  std::uint64_t new_block(std::uint64_t key, std::uint64_t value) {
    return blocks_.create(slice_of_key(key, tree_.slices()), value);
  }

  BTree tree_;
  ValueBlocks blocks_;
};

/// An R-tree of such values, as far as it is served: points are added, and never updated.
class RTreeOfValues {
 public:
  struct Options {
    RTree::Options tree;
    std::uint32_t value_bytes = 64;  ///< a multiple of 8
  };

  explicit RTreeOfValues(const Options& options)
      : tree_(options.tree),
        blocks_(tree_, options.tree.huge_pages, options.tree.placement, options.value_bytes) {}

  const Grid& grid() const noexcept { return tree_.grid(); }
  std::uint32_t fanout() const noexcept { return tree_.fanout(); }
  std::uint32_t slices() const noexcept { return tree_.slices(); }
  std::uint64_t size() const noexcept { return tree_.size(); }
  std::uint64_t slice_size(std::uint32_t slice) const { return tree_.slice_size(slice); }
  ValuedSlice& memory(std::uint32_t slice) { return blocks_.memory(slice); }
  const ValuedSlice& memory(std::uint32_t slice) const { return blocks_.memory(slice); }
  RetiredArenas& retired() noexcept { return tree_.retired(); }

  void prefetch(Point point) const noexcept { tree_.prefetch(point); }
  void insert(Point point, std::uint64_t value) {
    tree_.insert(point, blocks_.create(grid().slice_of(point), value));
  }
  /// As RTree's; `values` must be empty.
  void find_batch(std::span<const Rectangle> ranges, std::vector<std::uint64_t>& values,
                  std::size_t* ends) const {
    tree_.find_batch(ranges, values, ends);
    blocks_.read_all(values.data(), values.size());
  }
  void bulk_load_slice(std::uint32_t slice, std::span<const Point> points,
                       std::span<const std::uint64_t> values, double fill) {
    std::vector<std::uint64_t> blocks(values.size());
    std::transform(values.begin(), values.end(), blocks.begin(),
                   [&](std::uint64_t value) { return blocks_.create(slice, value); });
    tree_.bulk_load_slice(slice, points, blocks, fill);
  }

 private:
  RTree tree_;
  ValueBlocks blocks_;
};

class ServedValues final : public ServedKeys<BTreeOfValues, void> {
 public:
  using ServedKeys::ServedKeys;

  double bytes_to_load() const noexcept override {
    const auto records = static_cast<double>(spec_.records);
    // Loading holds where the values of a slice lie besides.
    const auto of_value =
        static_cast<double>(ValueBlocks::bytes(spec_.value_bytes) + sizeof(std::uint64_t));
    return bytes_of_loaded_tree(records, tree_.slices()) + of_value * records;
  }
};

}  // namespace pmoss::kinds
