// Moving the nodes of a slice of the B+-tree into other memory while it is in use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/btree.hpp"
#include "index/slice_migration.hpp"

namespace pmoss {

/// Leaves in the order of their keys and then the nodes above them, each under the lock of the few
/// nodes that change.
class BTreeMigration final : public SliceMigration {
 public:
  /// Throws std::out_of_range, and as SliceMigration does.
  BTreeMigration(BTree& tree, std::uint32_t slice, const numa::Placement& to);
  ~BTreeMigration() override;

 private:
  bool move(std::size_t nodes) override;

  using Node = index_detail::Node;

  /// Moves the node of this level at the cursor, unless it is there already, and puts the cursor
  /// behind it. False if the tree is not as high.
  bool move_node(unsigned level);
  bool try_move(unsigned level, bool& exists);

  BTree& tree_;
  Node* spare_ = nullptr;  ///< memory for the next copy
  unsigned level_ = 0;
  std::uint64_t cursor_;
  bool level_done_ = false;
  bool all_done_ = false;
};

}  // namespace pmoss
