// A concurrent R-tree of points in the plane whose memory can be moved slice by slice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "index/arena.hpp"
#include "index/epoch.hpp"
#include "index/line_allocator.hpp"
#include "index/slice_memory.hpp"
#include "index/tracer.hpp"
#include "workload/points.hpp"

namespace pmoss {

namespace index_detail {
struct RTreeNode;
struct RTreeEntry;
}  // namespace index_detail

/// The plane is cut into a grid of cells, the slices. The top of the tree is an array with one
/// entry per cell. Everything below an entry is a tree of its own in that slice's own memory. A
/// point may be there several times, with the same value or with others.
///
/// All members but those that load may be called by any number of threads at once. Readers take no
/// lock and repeat a cell whose nodes were split meanwhile, unless that happens sixteen times in a
/// row. Writers lock the cell. Only a migration (rtree_migration.hpp) unlinks nodes. Their memory
/// is freed once no operation that began before can still be reading there (epoch.hpp).
class RTree {
 public:
  struct Options {
    Grid grid = {};             ///< 1 .. 65536 cells
    std::uint32_t fanout = 50;  ///< most entries of a node, 8 .. 64; P-MOSS: 20 to 50
    bool huge_pages = true;     ///< ask for 2 MiB pages; then a slice takes at least one of these
    numa::Placement placement = {};  ///< of all slices, until they are moved
  };

  /// What a query did.
  struct Work {
    std::uint64_t points = 0;  ///< found
    std::uint64_t nodes = 0;   ///< visited
    std::uint64_t cells = 0;   ///< that the range overlaps
  };

  /// Throws std::invalid_argument for an impossible option, std::bad_alloc.
  explicit RTree(const Options& options);
  RTree() : RTree(Options{}) {}
  ~RTree();
  RTree(const RTree&) = delete;
  RTree& operator=(const RTree&) = delete;

  /// Number of points in the range, over all cells that it overlaps; 0 if its borders are crossed.
  std::uint64_t count(const Rectangle& range) const noexcept;

  /// Appends the values of the points in the range, in no particular order. Throws std::bad_alloc.
  Work find(const Rectangle& range, std::vector<std::uint64_t>& values) const;

  /// The same for many ranges. The cache misses of `together` at a time overlap, which is about 1.5
  /// times as fast as one by one. The values of range i end before values[ends[i]].
  void find_batch(std::span<const Rectangle> ranges, std::vector<std::uint64_t>& values,
                  std::size_t* ends) const;
  static constexpr std::size_t together = 8;

  /// Adds a point. Throws std::bad_alloc, and then the point is not there.
  void insert(Point point, std::uint64_t value);

  /// Fills an empty tree, nodes to the share `fill` of the fanout, 0.4 to 1, on average; below 1
  /// some are fuller than others (sort-tile-recursive: Leutenegger, Lopez and Edgington, ICDE
  /// 1997). No other thread may use the tree meanwhile. Throws std::invalid_argument for another
  /// fill or if values and points differ in number, and std::logic_error if the tree is not empty.
  /// After std::bad_alloc the tree must not be used.
  void bulk_load(std::span<const Point> points, std::span<const std::uint64_t> values,
                 double fill = 1.0);

  /// The same for one empty slice, whose points all are, and which no other thread may use
  /// meanwhile; other threads may load other slices. Throws std::out_of_range too.
  void bulk_load_slice(std::uint32_t slice, std::span<const Point> points,
                       std::span<const std::uint64_t> values, double fill = 1.0);

  /// Fetches what a query in the slice of this point reads first.
  void prefetch(Point point) const noexcept;

  /// Number of points; exact when no writer is active.
  std::uint64_t size() const noexcept;
  std::uint64_t slice_size(std::uint32_t slice) const;
  const Grid& grid() const noexcept { return grid_; }
  std::uint32_t slices() const noexcept { return grid_.slices(); }
  std::uint32_t fanout() const noexcept { return fanout_; }

  /// Levels of a slice's tree: 0 while it is empty, 1 while it is a leaf. Throws std::out_of_range.
  unsigned height(std::uint32_t slice) const;

  /// Where the new nodes of a slice go, and unless it is being moved all lie. While other threads
  /// move slices, it lives no longer than the caller's EpochGuard. Throws std::out_of_range.
  const SliceArena& arena(std::uint32_t slice) const;

  /// Where chunks come from and go to: reserve() there makes migrations faster.
  ChunkPool& chunk_pool() noexcept { return *pool_; }

  /// Where the data of a slice lie. To move them, let SliceMemory::move_pages() move the pages, or
  /// let RTreeMigration copy the nodes. Throws std::out_of_range.
  SliceMemory& memory(std::uint32_t slice) { return *slices_.at(slice); }
  const SliceMemory& memory(std::uint32_t slice) const { return *slices_.at(slice); }

  /// What migrations have left behind.
  RetiredArenas& retired() noexcept { return retired_; }

  // --- the same operations, which also log the cache lines that they touch ---

  Work find(const Rectangle& range, std::vector<std::uint64_t>& values, TouchLog& log) const;
  void insert(Point point, std::uint64_t value, TouchLog& log);

  /// Where the roots of the slices lie side by side: the memory that every operation reads first.
  ChunkView root_table() const noexcept;

  /// The root of a slice, null while it is empty; for tests of the structure. The same holds for it
  /// as for arena().
  const index_detail::RTreeNode* root(std::uint32_t slice) const;

 private:
  using Node = index_detail::RTreeNode;
  using Root = std::atomic<Node*>;
  struct Descent;
  struct Loader;
  friend class RTreeMigration;

  template <class Tracer, class Sink>
  Work search(const Rectangle& range, Tracer tracer, Sink& sink) const;
  template <class Tracer>
  Work find_with(const Rectangle& range, std::vector<std::uint64_t>& values, Tracer tracer) const;
  Work find_alone(const Rectangle& range, std::vector<std::uint64_t>& values) const;
  bool find_together(std::span<const Rectangle> ranges, std::vector<std::uint64_t>& values,
                     std::size_t* ends, Work& work) const;
  template <class Tracer>
  void insert_with(Point point, std::uint64_t value, Tracer tracer);
  template <class Tracer>
  Node* lock_root(std::uint32_t slice, Tracer tracer);
  template <class Tracer>
  void insert_into(std::uint32_t slice, Node& root, Point point, std::uint64_t value,
                   Tracer tracer);
  Node* new_node(SliceArena& arena, unsigned level) const;
  void make_nodes(std::uint32_t slice, std::span<Node*> nodes);
  [[gnu::noinline]] void make_first_root(std::uint32_t slice);

  Grid grid_;
  std::uint32_t fanout_;
  std::shared_ptr<ChunkPool> pool_;
  std::mutex first_root_;  ///< held while an empty slice gets its root
  std::vector<Root, LineAllocator<Root>> roots_;
  std::vector<std::unique_ptr<SliceMemory>> slices_;
  RetiredArenas retired_;
};

}  // namespace pmoss
