// Moving the nodes of a slice into other memory while it is in use: P-MOSS's migratory range scan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "index/btree.hpp"

namespace pmoss {

/// Copies a slice node by node, leaves in the order of their keys and then the nodes above them,
/// each under the lock of the few nodes that change. Readers go on in the old copy or the new one;
/// writers wait for a copy to be made, no longer. New nodes go to the new memory from the start.
///
/// It may be abandoned half way: the slice is then as good as before, in two places. One thread
/// drives a migration, and a slice has one at a time.
class SliceMigration {
 public:
  /// Throws std::out_of_range, std::logic_error if the slice is being moved already, and
  /// std::bad_alloc.
  SliceMigration(BTree& tree, std::uint32_t slice, const numa::Placement& to);
  ~SliceMigration();
  SliceMigration(const SliceMigration&) = delete;
  SliceMigration& operator=(const SliceMigration&) = delete;

  /// Moves at most `nodes` nodes; false once there is nothing left to move. Throws std::bad_alloc,
  /// after which it may be called again.
  bool step(std::size_t nodes);

  std::uint32_t slice() const noexcept { return slice_; }
  bool done() const noexcept { return done_; }
  std::uint64_t leaves_moved() const noexcept { return leaves_moved_; }
  std::uint64_t nodes_moved() const noexcept { return nodes_moved_; }
  std::uint64_t bytes_moved() const noexcept;

  /// The memory left behind, once done: to be destroyed when every operation on the tree that began
  /// before this call has ended.
  std::vector<std::unique_ptr<SliceArena>> take_retired();

 private:
  using Node = index_detail::Node;

  /// Moves the node of this level at the cursor, unless it is there already, and puts the cursor
  /// behind it. False if the tree is not as high.
  bool move_node(unsigned level);
  bool try_move(unsigned level, bool& exists);

  BTree& tree_;
  std::uint32_t slice_;
  SliceArena* target_;
  Node* spare_ = nullptr;  ///< memory for the next copy
  unsigned level_ = 0;
  std::uint64_t cursor_;
  bool level_done_ = false;
  bool done_ = false;
  std::uint64_t leaves_moved_ = 0;
  std::uint64_t nodes_moved_ = 0;
};

}  // namespace pmoss
