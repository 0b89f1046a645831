// Moving the nodes of a slice of the B+-tree into other memory while it is in use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "index/btree.hpp"
#include "index/slice_migration.hpp"

namespace pmoss {

/// Leaves in the order of their keys and then the nodes above them.
///
/// Neighbouring leaves below one parent move as a group. They are copied without locks, as a reader
/// reads them. Then all locks are taken at the versions that were read, and the copies are linked.
/// Where a writer came in between, the group ends before that leaf, which moves by itself: it is
/// copied under the locks of the few nodes that change. So do the nodes above the leaves.
class BTreeMigration final : public SliceMigration {
 public:
  /// Throws std::out_of_range, and as SliceMigration does.
  BTreeMigration(BTree& tree, std::uint32_t slice, const numa::Placement& to);
  ~BTreeMigration() override;

 private:
  bool move(std::size_t nodes) override;

  using Node = index_detail::Node;

  /// Enough that what a group costs as a whole hardly counts. Its locks are held for about as long
  /// as copying two leaves takes.
  static constexpr std::size_t most_leaves = 32;

  /// A node of some level at the cursor, and what leads to it.
  struct Way {
    Node* node = nullptr;
    std::uint64_t version = 0;
    Node* parent = nullptr;  ///< null: the node is the root
    std::uint64_t parent_version = 0;
    unsigned position = 0;              ///< of the node in its parent
    std::optional<std::uint64_t> low;   ///< the largest key that belongs to the left
    std::optional<std::uint64_t> high;  ///< the largest key that belongs here
  };
  /// Absent: the tree is not as high. Again: a writer came in between.
  enum class Outcome : std::uint8_t { done, absent, again };

  Outcome find(unsigned level, Way& way) const;
  /// The leaf on the left, whose link must follow; null if there is none. False if a writer came in
  /// between.
  bool find_left(const Node& leaf, const std::optional<std::uint64_t>& low, Node*& left,
                 std::uint64_t& left_version) const;

  /// Moves the node of this level at the cursor, unless it is there already, and puts the cursor
  /// behind it. False if the tree is not as high.
  bool move_node(unsigned level);
  Outcome try_move(unsigned level);
  /// Moves leaves from the cursor on, at most so many, and puts it behind them. Returns their
  /// number; 0 if that leaf has to move by itself.
  unsigned move_leaves(unsigned limit);
  /// Puts the cursor behind a node that ends with this key, or at the end of the level.
  void advance(const std::optional<std::uint64_t>& high) noexcept;
  void keep_spares(unsigned nodes);
  void drop_spares(unsigned nodes) noexcept;  ///< the first ones, which are published

  BTree& tree_;
  std::array<Node*, most_leaves> spares_{};  ///< memory for the next copies
  unsigned spare_count_ = 0;
  unsigned level_ = 0;
  std::uint64_t cursor_;
  bool level_done_ = false;
  bool all_done_ = false;
};

}  // namespace pmoss
