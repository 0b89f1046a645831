// Moving the nodes of a slice into other memory while it is in use: P-MOSS's migratory range scan.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/epoch.hpp"
#include "index/slice_memory.hpp"

namespace pmoss {

/// Copies a slice node by node, under locks. Readers use the old copy or the new one. Writers wait
/// while a node is copied, no longer than a step. New nodes are made in the new memory from the
/// start.
///
/// Example: slice 3 has a root and four leaves on NUMA node 0 and moves to node 1. Two calls of
/// step(2) copy the leaves, and each copy is linked in place of the original. The third copies the
/// root, retires the arena on node 0 and returns false. RetiredArenas::reclaim() frees that arena
/// once no reader can be in it (epoch.hpp).
///
/// A migration may be abandoned half way. The slice then lies in two places and works as before.
/// One thread drives a migration, and a slice has one at a time.
class SliceMigration {
 public:
  /// Frees what earlier migrations have retired, if it can be. Throws std::logic_error if the slice
  /// is being moved already, and std::bad_alloc.
  SliceMigration(SliceMemory& memory, RetiredArenas& retired, std::uint32_t slice,
                 const numa::Placement& to);
  virtual ~SliceMigration();
  SliceMigration(const SliceMigration&) = delete;
  SliceMigration& operator=(const SliceMigration&) = delete;

  /// Moves at most `nodes` nodes; false once there is nothing left to move. Throws std::bad_alloc,
  /// after which it may be called again.
  bool step(std::size_t nodes);

  std::uint32_t slice() const noexcept { return slice_; }
  bool done() const noexcept { return done_; }
  std::uint64_t leaves_moved() const noexcept { return leaves_moved_; }
  std::uint64_t nodes_moved() const noexcept { return nodes_moved_; }
  std::uint64_t bytes_moved() const noexcept { return bytes_moved_; }

 protected:
  /// Moves at most `nodes` nodes; false once all lie in the target.
  virtual bool move(std::size_t nodes) = 0;

  void count_move(std::size_t bytes, bool is_leaf) noexcept {
    ++nodes_moved_;
    if (is_leaf) ++leaves_moved_;
    bytes_moved_ += bytes;
  }

  SliceMemory& memory_;
  std::uint32_t slice_;
  SliceArena* target_;

 private:
  RetiredArenas& retired_;
  bool done_ = false;
  std::uint64_t leaves_moved_ = 0;
  std::uint64_t nodes_moved_ = 0;
  std::uint64_t bytes_moved_ = 0;
};

}  // namespace pmoss
