#include "index/rtree_migration.hpp"

#include <mutex>
#include <utility>

#include "index/rtree_node.hpp"

namespace pmoss {

using index_detail::relaxed_store;

RTreeMigration::RTreeMigration(RTree& tree, std::uint32_t slice, const numa::Placement& to)
    : SliceMigration(*tree.slices_.at(slice), tree.retired_, slice, to), tree_(tree) {}

/// The slice's root, locked; null while the slice is empty.
RTreeMigration::Node* RTreeMigration::lock_root() {
  auto& slot = tree_.roots_[slice_];
  {
    // A first root that is made after this takes its memory from the new arena.
    const std::lock_guard lock(tree_.first_root_);
    if (slot.load(std::memory_order_acquire) == nullptr) return nullptr;
  }
  for (;;) {
    Node* const root = slot.load(std::memory_order_acquire);
    root->lock();
    if (slot.load(std::memory_order_relaxed) == root) return root;
    root->unlock();
  }
}

/// A copy in the new memory, not published yet.
RTreeMigration::Node* RTreeMigration::copy(const Node& node) {
  const std::size_t bytes = Node::bytes(node.level, node.stride);
  auto* const moved = static_cast<Node*>(target_->allocate(bytes));
  moved->clear(node.level, node.stride);
  moved->splits.store(node.splits.load(std::memory_order_relaxed), std::memory_order_relaxed);
  const unsigned count = node.count.load(std::memory_order_relaxed);
  for (unsigned side = 0; side < Node::sides_of(node.level); ++side) {
    const std::uint32_t* const from = node.side(side);
    std::uint32_t* const to = moved->side(side);
    for (unsigned i = 0; i < count; ++i) relaxed_store(to[i], from[i]);
  }
  const std::uint64_t* const from = node.words();
  std::uint64_t* const to = moved->words();
  for (unsigned i = 0; i < count; ++i) relaxed_store(to[i], from[i]);
  moved->count.store(count, std::memory_order_release);
  // Before any word that leads there.
  std::atomic_thread_fence(std::memory_order_release);
  count_move(bytes, node.level == 0);
  return moved;
}

bool RTreeMigration::move(std::size_t nodes) {
  const EpochGuard guard;
  Node* root = lock_root();
  if (root == nullptr) return false;
  std::unique_lock lock(*root, std::adopt_lock);
  if (root != root_ || root->splits.load(std::memory_order_relaxed) != splits_) path_.clear();
  if (path_.empty()) {
    if (!target_->owns(root)) {
      Node* const moved = copy(*root);
      moved->lock();
      tree_.roots_[slice_].store(moved, std::memory_order_release);
      lock = std::unique_lock(*moved, std::adopt_lock);  // and the old one is unlocked
      root = moved;
      if (nodes > 0) --nodes;
    }
    path_.push_back({root, 0});
    root_ = root;
    splits_ = root->splits.load(std::memory_order_relaxed);
  }
  while (nodes > 0 && !path_.empty()) {
    Step& last = path_.back();
    if (last.node->level == 0 || last.next == last.node->count.load(std::memory_order_relaxed)) {
      path_.pop_back();
      continue;
    }
    std::uint64_t& word = last.node->words()[last.next];
    Node* child = Node::as_node(word);
    if (!target_->owns(child)) {
      child = copy(*child);
      relaxed_store(word, Node::as_word(child));
      --nodes;
    }
    ++last.next;
    if (child->level > 0) path_.push_back({child, 0});
  }
  return !path_.empty();
}

}  // namespace pmoss
