#include "index/btree_migration.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "index/node_copy.hpp"
#include "workload/keyspace.hpp"

namespace pmoss {

using index_detail::kernels;
using index_detail::Node;
using index_detail::NodeLock;
using index_detail::Untraced;
using index_detail::versioned_load;
using index_detail::versioned_store;

namespace {

/// Leaves that are on their way into a cache while one is copied.
constexpr unsigned fetched_leaves = 2;

}  // namespace

BTreeMigration::BTreeMigration(BTree& tree, std::uint32_t slice, const numa::Placement& to)
    : SliceMigration(*tree.slice_.at(slice), tree.retired_, slice, to),
      tree_(tree),
      cursor_(slice > 0 ? first_key_of_slice(slice, tree.slices_) : 0) {}

BTreeMigration::~BTreeMigration() {
  while (spare_count_ > 0) target_->take_back(spares_[--spare_count_], sizeof(Node));
}

bool BTreeMigration::move(std::size_t nodes) {
  while (nodes > 0 && !all_done_) {
    if (level_done_) {
      ++level_;
      level_done_ = false;
      cursor_ = slice_ > 0 ? first_key_of_slice(slice_, tree_.slices_) : 0;
    }
    unsigned moved = 0;
    if (level_ == 0) moved = move_leaves(static_cast<unsigned>(std::min(nodes, most_leaves)));
    if (moved == 0) {
      // Splits may have put roots above the old one meanwhile: the last level is not there.
      if (!move_node(level_)) all_done_ = true;
      moved = 1;
    }
    nodes -= moved;
  }
  return !all_done_;
}

bool BTreeMigration::move_node(unsigned level) {
  const EpochGuard guard;
  keep_spares(1);
  for (Backoff backoff;; backoff.pause()) {
    const Outcome outcome = try_move(level);
    if (outcome != Outcome::again) return outcome == Outcome::done;
  }
}

void BTreeMigration::keep_spares(unsigned nodes) {
  for (; spare_count_ < nodes; ++spare_count_) {
    spares_[spare_count_] = static_cast<Node*>(target_->allocate(sizeof(Node)));
  }
}

void BTreeMigration::drop_spares(unsigned nodes) noexcept {
  std::copy(spares_.begin() + nodes, spares_.begin() + spare_count_, spares_.begin());
  spare_count_ -= nodes;
}

void BTreeMigration::advance(const std::optional<std::uint64_t>& high) noexcept {
  if (high && *high < index_detail::no_key) {
    cursor_ = *high + 1;
  } else {
    level_done_ = true;
  }
}

BTreeMigration::Outcome BTreeMigration::find(unsigned level, Way& way) const {
  const auto& root = tree_.roots_[slice_];
  way.node = root.load(std::memory_order_acquire);
  way.version = way.node->read_begin();
  if (root.load(std::memory_order_acquire) != way.node) return Outcome::again;
  if (versioned_load(way.node->level) < level) return Outcome::absent;
  while (versioned_load(way.node->level) != level) {
    if (versioned_load(way.node->level) == 0) return Outcome::again;  // torn
    Node& node = *way.node;
    const unsigned position = kernels().lower_bound(node, cursor_, Untraced{});
    const unsigned count = node.safe_count();
    if (position > count) return Outcome::again;
    if (position > 0) way.low = versioned_load(node.keys[position - 1]);
    if (position < count) way.high = versioned_load(node.keys[position]);
    Node* const child = Node::as_node(versioned_load(node.words[position]));
    if (!node.read_valid(way.version)) return Outcome::again;
    const std::uint64_t child_version = child->read_begin();
    if (!node.read_valid(way.version)) return Outcome::again;
    way.parent = &node;
    way.parent_version = way.version;
    way.position = position;
    way.node = child;
    way.version = child_version;
  }
  return Outcome::done;
}

bool BTreeMigration::find_left(const Node& leaf, const std::optional<std::uint64_t>& low,
                               Node*& left, std::uint64_t& left_version) const {
  left = nullptr;
  if (!low && slice_ == 0) return true;
  const std::uint64_t key = low ? *low : first_key_of_slice(slice_, tree_.slices_) - 1;
  left =
      kernels().find_leaf(tree_.roots_[low ? slice_ : slice_ - 1], key, left_version, Untraced{});
  return versioned_load(left->next) == Node::as_word(&leaf);
}

/// One attempt; it fails if a writer comes in between.
BTreeMigration::Outcome BTreeMigration::try_move(unsigned level) {
  Way way;
  const Outcome outcome = find(level, way);
  if (outcome != Outcome::done) return outcome;
  Node* const node = way.node;
  if (target_->owns(node)) {
    advance(way.high);
    return Outcome::done;
  }
  Node* left = nullptr;
  std::uint64_t left_version = 0;
  if (level == 0 && !find_left(*node, way.low, left, left_version)) return Outcome::again;

  // A thread that finds one of the locks taken releases all of its own, so no deadlock is possible.
  std::optional<NodeLock> parent_lock;
  std::optional<NodeLock> left_lock;
  if (way.parent != nullptr) {
    if (!way.parent->lock(way.parent_version)) return Outcome::again;
    parent_lock.emplace(*way.parent);
  }
  if (!node->lock(way.version)) return Outcome::again;
  // Until the new node is published everywhere. A reader that still comes from the parent, the root
  // or the left finds that those have changed.
  const NodeLock lock(*node);
  if (left != nullptr) {
    if (!left->lock(left_version)) return Outcome::again;
    left_lock.emplace(*left);
  }
  auto& root = tree_.roots_[slice_];
  if (way.parent == nullptr && root.load(std::memory_order_acquire) != node) return Outcome::again;

  Node* const moved = spares_[0];
  index_detail::copy_locked(*node, moved);
  if (way.parent != nullptr) {
    versioned_store(way.parent->words[way.position], Node::as_word(moved));
  } else {
    root.store(moved, std::memory_order_release);
  }
  if (left != nullptr) versioned_store(left->next, Node::as_word(moved));
  drop_spares(1);
  count_move(sizeof(Node), level == 0);
  advance(way.high);
  return Outcome::done;
}

/// One attempt, too.
unsigned BTreeMigration::move_leaves(unsigned limit) {
  const EpochGuard guard;
  Way way;
  if (find(1, way) != Outcome::done) return 0;
  Node& parent = *way.node;
  const unsigned first = kernels().lower_bound(parent, cursor_, Untraced{});
  const unsigned count = parent.safe_count();
  if (first > count) return 0;
  if (first > 0) way.low = versioned_load(parent.keys[first - 1]);
  // Also those that move next: their first lines are fetched in time.
  std::array<Node*, 2 * most_leaves> leaves;
  const unsigned count_read = std::min(2 * limit, count + 1 - first);
  for (unsigned i = 0; i < count_read; ++i) {
    leaves[i] = Node::as_node(versioned_load(parent.words[first + i]));
  }
  if (!parent.read_valid(way.version)) return 0;
  std::for_each_n(leaves.begin(), count_read, index_detail::fetch_head);
  const auto is_there = [this](const Node* leaf) { return target_->owns(leaf); };
  const auto end =
      std::find_if(leaves.begin(), leaves.begin() + std::min(limit, count_read), is_there);
  const auto linked = static_cast<unsigned>(end - leaves.begin());
  if (linked == 0) return 0;
  keep_spares(linked);
  Node* left = nullptr;
  std::uint64_t left_version = 0;
  if (!find_left(*leaves[0], way.low, left, left_version)) return 0;

  std::array<std::uint64_t, most_leaves> versions;
  std::array<unsigned, most_leaves> counts;
  const auto fetch = [&](unsigned i) {
    if (i >= linked) return;
    versions[i] = leaves[i]->read_begin();
    counts[i] = leaves[i]->safe_count();
    index_detail::fetch_to_copy(leaves[i], counts[i]);
  };
  for (unsigned i = 0; i < fetched_leaves; ++i) fetch(i);
  unsigned copied = 0;
  for (; copied < linked; ++copied) {
    fetch(copied + fetched_leaves);
    const Node& leaf = *leaves[copied];
    const std::uint64_t next =
        copied + 1 < linked ? Node::as_word(spares_[copied + 1]) : versioned_load(leaf.next);
    index_detail::copy_unlocked(leaf, versions[copied], counts[copied], next, spares_[copied]);
    if (!leaf.read_valid(versions[copied])) break;
  }
  index_detail::finish_copies();
  if (copied == 0) return 0;

  // While the parent is as it was read, so are its children, and each is linked to the next one.
  if (!parent.lock(way.version)) return 0;
  const NodeLock parent_lock(parent);
  std::optional<NodeLock> left_lock;
  if (left != nullptr) {
    if (!left->lock(left_version)) return 0;
    left_lock.emplace(*left);
  }
  std::array<std::optional<NodeLock>, most_leaves> locks;
  unsigned moved = 0;
  for (; moved < copied && leaves[moved]->lock(versions[moved]); ++moved) {
    locks[moved].emplace(*leaves[moved]);
  }
  if (moved == 0) return 0;
  if (moved < linked) spares_[moved - 1]->next = Node::as_word(leaves[moved]);
  for (unsigned i = 0; i < moved; ++i) {
    versioned_store(parent.words[first + i], Node::as_word(spares_[i]));
    count_move(sizeof(Node), true);
  }
  if (left != nullptr) versioned_store(left->next, Node::as_word(spares_[0]));
  const unsigned last = first + moved - 1;
  if (last < count) way.high = parent.keys[last];
  advance(way.high);
  drop_spares(moved);
  return moved;
}

}  // namespace pmoss
