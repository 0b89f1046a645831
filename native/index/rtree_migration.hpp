// Moving the nodes of a slice of the R-tree into other memory while it is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/rtree.hpp"
#include "index/slice_migration.hpp"

namespace pmoss {

/// From the root downwards, under the lock of the slice's writers. A node is moved by its parent's
/// word, and the parent has moved before. So a reader that comes from an old node finds another
/// root, and begins again.
class RTreeMigration final : public SliceMigration {
 public:
  /// Throws std::out_of_range, and as SliceMigration does.
  RTreeMigration(RTree& tree, std::uint32_t slice, const numa::Placement& to);

 private:
  bool move(std::size_t nodes) override;

  using Node = index_detail::RTreeNode;
  struct Step {
    Node* node;
    std::uint32_t next;  ///< its first child that has not been looked at
  };

  Node* lock_root();
  Node* copy(const Node& node);

  RTree& tree_;
  std::vector<Step> path_;  ///< from the root to where the last step ended
  const Node* root_ = nullptr;
  std::uint64_t splits_ = 0;  ///< of the root then: any more, and the path leads nowhere
};

}  // namespace pmoss
