// A concurrent B+-tree of 64-bit keys and values whose memory can be moved slice by slice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "index/arena.hpp"
#include "index/epoch.hpp"
#include "index/line_allocator.hpp"
#include "index/search.hpp"
#include "index/slice_memory.hpp"
#include "index/tracer.hpp"
#include "workload/keyspace.hpp"

namespace pmoss {

/// The key space is cut into slices of equal width (slice_of_key()). The top of the tree is an
/// array with one entry per slice. Everything below an entry belongs to one slice and lies in that
/// slice's own memory. Leaves of all slices form one ascending chain for scans.
///
/// All members may be called by any number of threads at once. Readers take no lock: they check the
/// version of a node before and after reading it (optimistic lock coupling). Writers lock single
/// nodes. Only a migration (btree_migration.hpp) unlinks nodes. Their memory is freed once no
/// operation that began before can still be reading there (epoch.hpp). Every operation sees to that
/// itself. A thread that does many short ones may hold one guard for all, and pass it.
class BTree {
 public:
  struct Options {
    std::uint32_t slices = 256;  ///< 1 .. 65536; each takes at least one page of memory
    bool huge_pages = true;      ///< ask for 2 MiB pages; then a slice takes at least one of these
    numa::Placement placement = {};  ///< of all slices, until they are moved
  };
  static constexpr std::uint32_t max_slices = 65536;

  /// Throws std::invalid_argument for a wrong number of slices, std::bad_alloc.
  explicit BTree(const Options& options);
  BTree() : BTree(Options{}) {}
  ~BTree();
  BTree(const BTree&) = delete;
  BTree& operator=(const BTree&) = delete;

  /// False, and `value` as it was, if the key is absent. Within its callers: each call on the way
  /// is a store, and the fewer there are, the more lookups the processor keeps under way.
  bool lookup(const EpochGuard& guard, std::uint64_t key, std::uint64_t& value) const noexcept {
    return count(guard, key, value) == 1;
  }
  /// The same with 1 for true and 0 for false, as a library's answer (pmoss/index.h).
  int count(const EpochGuard&, std::uint64_t key, std::uint64_t& value) const noexcept {
    return index_detail::kernels().lookup(roots_[slice_of_key(key, slices_)], key, value,
                                          index_detail::Untraced{});
  }
  bool lookup(std::uint64_t key, std::uint64_t& value) const noexcept {
    return lookup(EpochGuard(), key, value);
  }

  /// Adds the key or replaces its value; true if the key was new. Throws std::bad_alloc, and then
  /// the key is not added and the tree is as good as before.
  bool insert(const EpochGuard& guard, std::uint64_t key, std::uint64_t value);
  bool insert(std::uint64_t key, std::uint64_t value) { return insert(EpochGuard(), key, value); }

  /// insert() for each pair in turn, with the cache misses of the searches overlapped; returns the
  /// number of keys that were new. After std::bad_alloc the pairs before the failing one are there.
  std::size_t insert_batch(const std::uint64_t* keys, const std::uint64_t* values, std::size_t n);

  /// False if the key is absent.
  bool update(const EpochGuard& guard, std::uint64_t key, std::uint64_t value) noexcept {
    return update_count(guard, key, value) == 1;
  }
  /// The same with 1 for true and 0 for false.
  int update_count(const EpochGuard& guard, std::uint64_t key, std::uint64_t value) noexcept;
  bool update(std::uint64_t key, std::uint64_t value) noexcept {
    return update(EpochGuard(), key, value);
  }

  /// False if the key is absent. Nodes are not merged; their room serves later inserts.
  bool erase(std::uint64_t key) noexcept;

  /// Copies the up to `limit` smallest entries with keys from `first` on, in ascending order, and
  /// returns their number. `keys` and `values` may each be null. Under concurrent writes, each
  /// leaf is read as it is at one moment; keys present throughout are never missed.
  std::size_t scan(const EpochGuard& guard, std::uint64_t first, std::size_t limit,
                   std::uint64_t* keys, std::uint64_t* values) const noexcept;
  std::size_t scan(std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                   std::uint64_t* values) const noexcept {
    return scan(EpochGuard(), first, limit, keys, values);
  }

  /// `n` lookups whose cache misses overlap, which is several times as fast as one by one. Fills
  /// `found`, and `values` where found, and returns the number found.
  std::size_t lookup_batch(const std::uint64_t* keys, std::size_t n, std::uint64_t* values,
                           bool* found) const noexcept;

  /// Where a batch has found a key, or where it would be. It is a hint: an operation that is given
  /// one skips the search unless another thread has written there since. It lasts as long as the
  /// guard.
  using Place = index_detail::Place;

  /// The same, and fills `places` for what is to be done with the keys besides.
  std::size_t lookup_batch(const EpochGuard&, const std::uint64_t* keys, std::size_t n,
                           std::uint64_t* values, bool* found, Place* places) const noexcept {
    return index_detail::kernels().lookup_batch(roots_.data(), slices_, keys, n, values, found,
                                                places);
  }
  bool insert(const EpochGuard& guard, const Place& place, std::uint64_t key, std::uint64_t value) {
    const int outcome = insert_there(place, key, value);
    return outcome < 0 ? insert(guard, key, value) : outcome == 1;
  }
  bool update(const EpochGuard& guard, const Place& place, std::uint64_t key,
              std::uint64_t value) noexcept {
    return update_there(place, key, value) || update(guard, key, value);
  }
  std::size_t scan(const EpochGuard& guard, const Place& place, std::uint64_t first,
                   std::size_t limit, std::uint64_t* keys, std::uint64_t* values) const noexcept;

  /// Fetch what an operation at a place will touch. Asked for some operations ahead, nothing waits.
  void fetch_to_insert(const Place& place) const noexcept;
  void fetch_to_scan(const Place& place, std::size_t limit) const noexcept;
  /// How many operations ahead pays.
  static constexpr std::size_t fetched_ahead = 8;

  /// Fills an empty tree with ascending keys, as full as a long stream of inserts in random order
  /// leaves it: a node's fill is 1 / (2 - u) with u uniform in [0, 1), whose mean is ln 2. The
  /// draws are those of `seed`. No other thread may use the tree meanwhile. Throws
  /// std::invalid_argument if the keys are not ascending, repeat, or differ in number from the
  /// values. Throws std::logic_error if the tree is not new. After std::bad_alloc slices are loaded
  /// whole or are new, so that those can be loaded again.
  void bulk_load(std::span<const std::uint64_t> keys, std::span<const std::uint64_t> values,
                 std::uint64_t seed) {
    bulk_load(0, slices_, keys, values, seed);
  }
  /// The same for the slices from `first` to before `last`, while other threads load other slices.
  /// What comes of a slice is the same. Throws std::invalid_argument also for keys of other slices
  /// and slices that there are not.
  void bulk_load(std::uint32_t first, std::uint32_t last, std::span<const std::uint64_t> keys,
                 std::span<const std::uint64_t> values, std::uint64_t seed);

  /// Whether nothing has ever been added to a slice, so that it can be loaded. Throws
  /// std::out_of_range.
  bool is_new(std::uint32_t slice) const {
    return slice_size(slice) == 0 && arena(slice).nodes() == 1;
  }

  /// Number of keys; exact when no writer is active.
  std::uint64_t size() const noexcept;
  std::uint64_t slice_size(std::uint32_t slice) const;
  std::uint32_t slices() const noexcept { return slices_; }

  /// Levels of a slice's tree: 1 while it is a single leaf. Throws std::out_of_range.
  unsigned height(std::uint32_t slice) const;

  /// Where the new nodes of a slice go, and unless it is being moved all lie. While other threads
  /// move slices, it lives no longer than the caller's EpochGuard. Throws std::out_of_range.
  const SliceArena& arena(std::uint32_t slice) const;

  /// Where the data of a slice lie. To move them, let SliceMemory::move_pages() move the pages, or
  /// let BTreeMigration copy the nodes. Throws std::out_of_range.
  SliceMemory& memory(std::uint32_t slice) { return *slice_.at(slice); }
  const SliceMemory& memory(std::uint32_t slice) const { return *slice_.at(slice); }

  /// Where chunks come from and go to: reserve() there makes migrations faster.
  ChunkPool& chunk_pool() noexcept { return *pool_; }

  /// What migrations have left behind.
  RetiredArenas& retired() noexcept { return retired_; }

  // --- the same operations, which also log the cache lines that they touch ---

  bool lookup(std::uint64_t key, std::uint64_t& value, TouchLog& log) const noexcept;
  bool insert(std::uint64_t key, std::uint64_t value, TouchLog& log);
  bool update(std::uint64_t key, std::uint64_t value, TouchLog& log) noexcept;
  bool erase(std::uint64_t key, TouchLog& log) noexcept;
  std::size_t scan(std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                   std::uint64_t* values, TouchLog& log) const noexcept;

  /// Where the roots of the slices lie side by side: the memory that every operation reads first.
  ChunkView root_table() const noexcept;

 private:
  friend class BTreeMigration;

  template <class Tracer>
  bool insert_with(std::uint64_t key, std::uint64_t value, Tracer tracer);
  template <class Tracer>
  int update_with(std::uint64_t key, std::uint64_t value, Tracer tracer) noexcept;
  template <class Tracer>
  bool erase_with(std::uint64_t key, Tracer tracer) noexcept;
  template <class Tracer>
  std::size_t scan_with(const Place* hint, std::uint64_t first, std::size_t limit,
                        std::uint64_t* keys, std::uint64_t* values, Tracer tracer) const noexcept;
  int insert_there(const Place& place, std::uint64_t key, std::uint64_t value) noexcept;
  static bool update_there(const Place& place, std::uint64_t key, std::uint64_t value) noexcept;

  void load_slice(std::uint32_t slice, std::span<const std::uint64_t> keys,
                  std::span<const std::uint64_t> values, std::uint64_t seed);
  index_detail::Node* new_node(std::uint32_t slice, unsigned level);
  template <class Tracer>
  [[gnu::noinline]] void split_if_unchanged(std::uint32_t slice, index_detail::Node& node,
                                            std::uint64_t version, index_detail::Node* parent,
                                            std::uint64_t parent_version, std::uint64_t key,
                                            Tracer tracer);

  std::uint32_t slices_;
  std::shared_ptr<ChunkPool> pool_;
  // Apart from the rest: dense, so that lookups find it cached.
  std::vector<index_detail::Root, LineAllocator<index_detail::Root>> roots_;
  std::vector<std::unique_ptr<SliceMemory>> slice_;
  RetiredArenas retired_;
};

}  // namespace pmoss
