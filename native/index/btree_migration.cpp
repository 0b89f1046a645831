#include "index/btree_migration.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "workload/keyspace.hpp"

namespace pmoss {

using index_detail::kernels;
using index_detail::line_bytes;
using index_detail::Node;
using index_detail::NodeLock;
using index_detail::versioned_load;
using index_detail::versioned_store;

namespace {

/// Makes `to`, which is not published yet, a copy of `from`, whose lock is held.
void copy_node(const Node& from, Node* to) noexcept {
  ::new (to) Node;  // starts the atomic's life; the rest is filled below
  // As if the node had been written to. So no version of it and its copies comes twice.
  to->version.store(from.version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const unsigned count = from.count;
  const unsigned words = from.level > 0 ? count + 1 : count;
  to->base = from.base;
  to->next = from.next;
  to->count = from.count;
  to->shift = from.shift;
  to->level = from.level;
  std::copy(std::begin(from.samples), std::end(from.samples), to->samples);
  std::copy_n(from.keys, count, to->keys);
  std::fill(to->keys + count, std::end(to->keys), index_detail::no_key);
  // Words that are not in use are never looked at.
  std::copy_n(from.words, words, to->words);
}

template <int to_write>
void prefetch(const Node* node) noexcept {
  const auto* const lines = reinterpret_cast<const char*>(node);
  for (std::size_t at = 0; at < sizeof(Node); at += line_bytes) {
    __builtin_prefetch(lines + at, to_write);
  }
}

}  // namespace

BTreeMigration::BTreeMigration(BTree& tree, std::uint32_t slice, const numa::Placement& to)
    : SliceMigration(*tree.slice_.at(slice), tree.retired_, slice, to),
      tree_(tree),
      cursor_(slice > 0 ? first_key_of_slice(slice, tree.slices_) : 0) {}

BTreeMigration::~BTreeMigration() {
  if (spare_ != nullptr) target_->take_back(spare_, sizeof *spare_);
}

bool BTreeMigration::move(std::size_t nodes) {
  for (; nodes > 0 && !all_done_; --nodes) {
    if (level_done_) {
      ++level_;
      level_done_ = false;
      cursor_ = slice_ > 0 ? first_key_of_slice(slice_, tree_.slices_) : 0;
    }
    // Splits may have put roots above the old one meanwhile: the last level is the one that is not.
    if (!move_node(level_)) all_done_ = true;
  }
  return !all_done_;
}

bool BTreeMigration::move_node(unsigned level) {
  const EpochGuard guard;
  if (spare_ == nullptr) spare_ = static_cast<Node*>(target_->allocate(sizeof(Node)));
  bool exists = true;
  for (Backoff backoff; !try_move(level, exists); backoff.pause()) {
  }
  return exists;
}

/// One attempt; false if a writer came in between.
bool BTreeMigration::try_move(unsigned level, bool& exists) {
  auto& root = tree_.roots_[slice_];
  const auto& search = kernels();
  Node* node = root.load(std::memory_order_acquire);
  std::uint64_t version = node->read_begin();
  if (root.load(std::memory_order_acquire) != node) return false;
  if (versioned_load(node->level) < level) {
    exists = false;
    return true;
  }
  Node* parent = nullptr;
  std::uint64_t parent_version = 0;
  unsigned position = 0;
  std::optional<std::uint64_t> low;   // the largest key that belongs to the left
  std::optional<std::uint64_t> high;  // the largest key that belongs here
  while (versioned_load(node->level) != level) {
    if (versioned_load(node->level) == 0) return false;  // torn
    position = search.lower_bound(*node, cursor_, index_detail::Untraced{});
    const unsigned count = node->safe_count();
    if (position > count) return false;
    if (position > 0) low = versioned_load(node->keys[position - 1]);
    if (position < count) high = versioned_load(node->keys[position]);
    Node* const child = Node::as_node(versioned_load(node->words[position]));
    if (!node->read_valid(version)) return false;
    const std::uint64_t child_version = child->read_begin();
    if (!node->read_valid(version)) return false;
    parent = node;
    parent_version = version;
    node = child;
    version = child_version;
  }
  const auto advance = [&] {
    if (high && *high < index_detail::no_key) {
      cursor_ = *high + 1;
    } else {
      level_done_ = true;
    }
    return true;
  };
  if (target_->owns(node)) return advance();

  // The leaf on the left, whose link must follow.
  Node* left = nullptr;
  std::uint64_t left_version = 0;
  if (level == 0) {
    const std::uint64_t next = versioned_load(node->next);
    if (!node->read_valid(version)) return false;
    if (next != 0) prefetch<0>(Node::as_node(next));
    if (low || slice_ > 0) {
      const std::uint64_t key = low ? *low : first_key_of_slice(slice_, tree_.slices_) - 1;
      left = search.find_leaf(tree_.roots_[low ? slice_ : slice_ - 1], key, left_version,
                              index_detail::Untraced{});
      if (versioned_load(left->next) != Node::as_word(node)) return false;
    }
  }

  // A thread that finds one of the locks taken releases all of its own, so no deadlock is possible.
  std::optional<NodeLock> parent_lock;
  std::optional<NodeLock> left_lock;
  if (parent != nullptr) {
    if (!parent->lock(parent_version)) return false;
    parent_lock.emplace(*parent);
  }
  if (!node->lock(version)) return false;
  // Until the new node is published everywhere. A reader that still comes from the parent, the root
  // or the left finds that those have changed.
  const NodeLock lock(*node);
  if (left != nullptr) {
    if (!left->lock(left_version)) return false;
    left_lock.emplace(*left);
  }
  if (parent == nullptr && root.load(std::memory_order_acquire) != node) return false;

  Node* const moved = std::exchange(spare_, nullptr);
  // An arena gives out one node behind the other. Without this, stores wait for their lines.
  prefetch<1>(moved + 1);
  copy_node(*node, moved);
  if (parent != nullptr) {
    versioned_store(parent->words[position], Node::as_word(moved));
  } else {
    root.store(moved, std::memory_order_release);
  }
  if (left != nullptr) versioned_store(left->next, Node::as_word(moved));
  count_move(sizeof(Node), level == 0);
  return advance();
}

}  // namespace pmoss
