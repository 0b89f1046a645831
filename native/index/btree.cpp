// Writing to the tree, and scans. Point reads are in search_kernels.inc.
#include "index/btree.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "workload/keyspace.hpp"

namespace pmoss {

using index_detail::kernels;
using index_detail::leaf_capacity;
using index_detail::line_bytes;
using index_detail::no_key;
using index_detail::Node;
using index_detail::NodeLock;
using index_detail::searches;
using index_detail::Traced;
using index_detail::Untraced;
using index_detail::versioned_copy;
using index_detail::versioned_load;
using index_detail::versioned_store;

namespace {

std::uint32_t checked_slices(std::uint32_t slices) {
  if (slices == 0 || slices > BTree::max_slices) {
    throw std::invalid_argument("slices is " + std::to_string(slices) + "; it must lie in 1 .. " +
                                std::to_string(BTree::max_slices));
  }
  return slices;
}

template <class Tracer>
void copy_words(const std::uint64_t* from, std::size_t n, std::uint64_t* to,
                Tracer tracer) noexcept {
  tracer.reads_ahead(from, n * sizeof *from);
  versioned_copy(from, n, to);
}

/// From a locked node to one that is not published yet.
template <class Tracer>
void move_words(const std::uint64_t* from, std::size_t n, std::uint64_t* to,
                Tracer tracer) noexcept {
  tracer.reads_ahead(from, n * sizeof *from);
  tracer.writes(to, n * sizeof *to);
  std::copy_n(from, n, to);
}

Node* make_node(SliceArena& arena, unsigned level) {
  Node* const node = ::new (arena.allocate(sizeof(Node))) Node{};
  node->initialise(level, Untraced{});
  return node;
}

/// Nodes for a split, made before it locks anything: mapping, placing and touching memory takes
/// longer than a writer may hold a lock. Those that are not used go back.
class FreshNodes {
 public:
  FreshNodes(const SliceMemory& memory, unsigned level, bool with_root)
      : memory_(memory), arena_(memory.current()) {
    if (with_root) root_ = make_node(arena_, level + 1);
    try {
      right_ = make_node(arena_, level);
    } catch (...) {
      give_back(root_);
      throw;
    }
  }
  ~FreshNodes() {
    give_back(right_);
    give_back(root_);
  }
  FreshNodes(const FreshNodes&) = delete;
  FreshNodes& operator=(const FreshNodes&) = delete;

  /// Asked under the lock of the node that is split. False if a migration has begun meanwhile,
  /// which might never look at nodes in the old memory.
  bool usable() const noexcept { return &memory_.current() == &arena_; }

  Node* take_root() noexcept { return std::exchange(root_, nullptr); }
  Node* take_right() noexcept { return std::exchange(right_, nullptr); }

 private:
  void give_back(Node* node) noexcept {
    if (node != nullptr) arena_.take_back(node, sizeof *node);
  }

  const SliceMemory& memory_;
  SliceArena& arena_;
  Node* root_ = nullptr;
  Node* right_ = nullptr;
};

}  // namespace

BTree::BTree(const Options& options)
    : slices_(checked_slices(options.slices)),
      pool_(std::make_shared<ChunkPool>(options.huge_pages)),
      roots_(options.slices) {
  slice_.reserve(slices_);
  for (std::uint32_t s = 0; s < slices_; ++s) {
    slice_.push_back(std::make_unique<SliceMemory>(pool_, options.placement));
    roots_[s].store(new_node(s, 0), std::memory_order_release);
    // The first leaf of a slice stays its first leaf: a split makes a new leaf on the right.
    if (s > 0) roots_[s - 1].load()->next = Node::as_word(roots_[s].load());
  }
}

BTree::~BTree() = default;

Node* BTree::new_node(std::uint32_t slice, unsigned level) {
  return make_node(slice_[slice]->current(), level);
}

bool BTree::lookup(std::uint64_t key, std::uint64_t& value, TouchLog& log) const noexcept {
  const EpochGuard guard;
  const auto& search = searches<Traced>();
  return search.lookup(roots_[slice_of_key(key, slices_)], key, value, Traced(log)) == 1;
}

std::size_t BTree::lookup_batch(const std::uint64_t* keys, std::size_t n, std::uint64_t* values,
                                bool* found) const noexcept {
  // A guard each: nothing can be freed while one lives.
  constexpr std::size_t part = 1024;
  std::size_t hits = 0;
  for (std::size_t start = 0; start < n; start += part) {
    const EpochGuard guard;
    hits += kernels().lookup_batch(roots_.data(), slices_, keys + start, std::min(part, n - start),
                                   values + start, found + start, nullptr);
  }
  return hits;
}

bool BTree::insert(const EpochGuard&, std::uint64_t key, std::uint64_t value) {
  return insert_with(key, value, Untraced{});
}

bool BTree::insert(std::uint64_t key, std::uint64_t value, TouchLog& log) {
  const EpochGuard guard;
  return insert_with(key, value, Traced(log));
}

template <class Tracer>
bool BTree::insert_with(std::uint64_t key, std::uint64_t value, Tracer tracer) {
  const std::uint32_t slice = slice_of_key(key, slices_);
  auto& root = roots_[slice];
  const auto& search = searches<Tracer>();
  for (Backoff backoff;; backoff.pause()) {
    Node* parent = nullptr;
    std::uint64_t parent_version = 0;
    tracer.reads(&root, sizeof root);
    Node* node = root.load(std::memory_order_acquire);
    tracer.reads(node, line_bytes);
    std::uint64_t version = node->read_begin();
    if (root.load(std::memory_order_acquire) != node) continue;
    for (;;) {
      if (node->safe_count() == leaf_capacity) {
        // Full nodes are split on the way down, so that a split never climbs: the parent, which was
        // not full when it was passed, has room.
        split_if_unchanged(slice, *node, version, parent, parent_version, key, tracer);
        break;
      }
      if (versioned_load(node->level) == 0) {
        const unsigned position = search.lower_bound_to_write(*node, key, tracer);
        if (!node->lock(version)) break;
        tracer.locks(node, line_bytes);
        const NodeLock lock(*node);
        if (position < node->count && node->keys[position] == key) {
          tracer.writes(node->words + position, sizeof value);
          versioned_store(node->words[position], value);
          return false;
        }
        node->insert_at(position, key, value, tracer);
        slice_[slice]->size.fetch_add(1, std::memory_order_relaxed);
        return true;
      }
      const unsigned position = search.lower_bound(*node, key, tracer);
      tracer.reads_ahead(node->words + position, sizeof *node->words);
      Node* const child = Node::as_node(versioned_load(node->words[position]));
      if (!node->read_valid(version)) break;
      tracer.reads(child, line_bytes);
      const std::uint64_t child_version = child->read_begin();
      if (!node->read_valid(version)) break;
      parent = node;
      parent_version = version;
      node = child;
      version = child_version;
    }
  }
}

/// Splits a full node, unless it or its parent have changed since their versions were read. A node
/// without a parent is a root and gets a new one.
template <class Tracer>
void BTree::split_if_unchanged(std::uint32_t slice, Node& node, std::uint64_t version, Node* parent,
                               std::uint64_t parent_version, std::uint64_t key, Tracer tracer) {
  const unsigned level = versioned_load(node.level);
  // All memory first: from here on nothing can fail.
  FreshNodes fresh(*slice_[slice], level, parent == nullptr);
  std::optional<NodeLock> parent_lock;
  if (parent != nullptr) {
    if (!parent->lock(parent_version)) return;
    tracer.locks(parent, line_bytes);
    parent_lock.emplace(*parent);
  }
  if (!node.lock(version)) return;
  tracer.locks(&node, line_bytes);
  const NodeLock lock(node);
  if (parent == nullptr && roots_[slice].load(std::memory_order_acquire) != &node) return;
  if (!fresh.usable()) return;

  const unsigned count = node.count;
  Node* const root = fresh.take_root();
  Node* const right = fresh.take_right();
  if (root != nullptr) tracer.writes(root, sizeof *root);
  tracer.writes(right, sizeof *right);

  // Ascending inserts would leave every node half empty if cut in the middle.
  const bool appends = level == 0 && key > node.keys[count - 1];
  const unsigned kept = appends ? count - 1 : count / 2 + 1;
  const std::uint64_t separator = node.keys[kept - 1];
  if (level == 0) {
    move_words(node.keys + kept, count - kept, right->keys, tracer);
    move_words(node.words + kept, count - kept, right->words, tracer);
    right->count = static_cast<std::uint16_t>(count - kept);
    right->next = node.next;
    tracer.writes(node.keys + kept, (count - kept) * sizeof *node.keys);
    std::fill(node.keys + kept, node.keys + count, no_key);
    versioned_store(node.count, static_cast<std::uint16_t>(kept));
    versioned_store(node.next, Node::as_word(right));
  } else {
    // The separator moves up; the child to its left becomes the last one of the left node.
    move_words(node.keys + kept, count - kept, right->keys, tracer);
    move_words(node.words + kept, count - kept + 1, right->words, tracer);
    right->count = static_cast<std::uint16_t>(count - kept);
    tracer.writes(node.keys + kept - 1, (count - kept + 1) * sizeof *node.keys);
    std::fill(node.keys + kept - 1, node.keys + count, no_key);
    versioned_store(node.count, static_cast<std::uint16_t>(kept - 1));
  }
  right->fit_samples(tracer);
  node.fit_samples(tracer);

  if (parent != nullptr) {
    const unsigned position = searches<Tracer>().lower_bound(*parent, separator, tracer);
    parent->insert_at(position, separator, Node::as_word(right), tracer);
  } else {
    root->words[0] = Node::as_word(&node);
    root->insert_at(0, separator, Node::as_word(right), tracer);
    tracer.writes(&roots_[slice], sizeof roots_[slice]);
    roots_[slice].store(root, std::memory_order_release);
  }
}

std::size_t BTree::insert_batch(const std::uint64_t* keys, const std::uint64_t* values,
                                std::size_t n) {
  constexpr std::size_t batch = 64;
  std::uint64_t ignored_values[batch];
  bool ignored[batch];
  Place places[batch];
  std::size_t fresh = 0;
  for (std::size_t start = 0; start < n; start += batch) {
    const std::size_t end = std::min(n, start + batch);
    const EpochGuard guard;
    lookup_batch(guard, keys + start, end - start, ignored_values, ignored, places);
    for (std::size_t i = 0; i < end - start; ++i) {
      if (i + fetched_ahead < end - start) fetch_to_insert(places[i + fetched_ahead]);
      fresh += insert(guard, places[i], keys[start + i], values[start + i]) ? 1 : 0;
    }
  }
  return fresh;
}

int BTree::update_count(const EpochGuard&, std::uint64_t key, std::uint64_t value) noexcept {
  return update_with(key, value, Untraced{});
}

bool BTree::update(std::uint64_t key, std::uint64_t value, TouchLog& log) noexcept {
  const EpochGuard guard;
  return update_with(key, value, Traced(log)) == 1;
}

template <class Tracer>
int BTree::update_with(std::uint64_t key, std::uint64_t value, Tracer tracer) noexcept {
  const auto& search = searches<Tracer>();
  for (Backoff backoff;; backoff.pause()) {
    std::uint64_t version;
    Node* const leaf = search.find_leaf(roots_[slice_of_key(key, slices_)], key, version, tracer);
    const unsigned position = search.lower_bound(*leaf, key, tracer);
    const bool present =
        position < leaf->safe_count() && versioned_load(leaf->keys[position]) == key;
    if (!present) {
      if (leaf->read_valid(version)) return 0;
      continue;
    }
    if (!leaf->lock(version)) continue;
    tracer.locks(leaf, line_bytes);
    const NodeLock lock(*leaf);
    tracer.writes(leaf->words + position, sizeof value);
    versioned_store(leaf->words[position], value);
    return 1;
  }
}

bool BTree::erase(std::uint64_t key) noexcept {
  const EpochGuard guard;
  return erase_with(key, Untraced{});
}

bool BTree::erase(std::uint64_t key, TouchLog& log) noexcept {
  const EpochGuard guard;
  return erase_with(key, Traced(log));
}

template <class Tracer>
bool BTree::erase_with(std::uint64_t key, Tracer tracer) noexcept {
  const auto& search = searches<Tracer>();
  const std::uint32_t slice = slice_of_key(key, slices_);
  for (Backoff backoff;; backoff.pause()) {
    std::uint64_t version;
    Node* const leaf = search.find_leaf(roots_[slice], key, version, tracer);
    const unsigned position = search.lower_bound(*leaf, key, tracer);
    const bool present =
        position < leaf->safe_count() && versioned_load(leaf->keys[position]) == key;
    if (!present) {
      if (leaf->read_valid(version)) return false;
      continue;
    }
    if (!leaf->lock(version)) continue;
    tracer.locks(leaf, line_bytes);
    const NodeLock lock(*leaf);
    leaf->erase_at(position, tracer);
    slice_[slice]->size.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
}

std::size_t BTree::scan(const EpochGuard&, std::uint64_t first, std::size_t limit,
                        std::uint64_t* keys, std::uint64_t* values) const noexcept {
  return scan_with(nullptr, first, limit, keys, values, Untraced{});
}

std::size_t BTree::scan(const EpochGuard&, const Place& place, std::uint64_t first,
                        std::size_t limit, std::uint64_t* keys,
                        std::uint64_t* values) const noexcept {
  const Place* const hint = place.leaf != nullptr ? &place : nullptr;
  return scan_with(hint, first, limit, keys, values, Untraced{});
}

std::size_t BTree::scan(std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                        std::uint64_t* values, TouchLog& log) const noexcept {
  const EpochGuard guard;
  return scan_with(nullptr, first, limit, keys, values, Traced(log));
}

template <class Tracer>
std::size_t BTree::scan_with(const Place* hint, std::uint64_t first, std::size_t limit,
                             std::uint64_t* keys, std::uint64_t* values,
                             Tracer tracer) const noexcept {
  if (limit == 0) return 0;
  const auto& search = searches<Tracer>();
  Place at;
  if (hint != nullptr) {
    at = *hint;
  } else {
    const auto& root = roots_[slice_of_key(first, slices_)];
    at.leaf = search.find_leaf(root, first, at.version, tracer);
    at.position = search.lower_bound(*at.leaf, first, tracer);
  }
  std::size_t done = 0;
  // The left end of a leaf never changes: what a split takes away is in the leaves to the right.
  // So a leaf that changed while it was read can be read again. The link to the next leaf is read
  // together with the entries, so that no keys lie between the two leaves.
  for (;;) {
    const unsigned count = at.leaf->safe_count();
    const std::uint64_t next = versioned_load(at.leaf->next);
    const std::size_t left = count > at.position ? count - at.position : 0;
    const std::size_t n = std::min(left, limit - done);
    if (n == left && next != 0) {
      tracer.reads_ahead(Node::as_node(next), line_bytes);
      __builtin_prefetch(Node::as_node(next));
    }
    if (keys != nullptr) copy_words(at.leaf->keys + at.position, n, keys + done, tracer);
    if (values != nullptr) copy_words(at.leaf->words + at.position, n, values + done, tracer);
    if (at.leaf->read_valid(at.version)) {
      hint = nullptr;
      done += n;
      if (done == limit || next == 0) return done;
      at.leaf = Node::as_node(next);
    } else if (hint != nullptr) {
      // It may have been moved long ago, and lack what this thread has inserted since then.
      return scan_with(nullptr, first, limit, keys, values, tracer);
    }
    at.version = at.leaf->read_begin();
    // Not only in the first leaf: `first` itself may have been split off to the right.
    at.position = done == 0 ? search.lower_bound(*at.leaf, first, tracer) : 0;
  }
}

std::uint64_t BTree::size() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& slice : slice_) sum += slice->size.load(std::memory_order_relaxed);
  return sum;
}

std::uint64_t BTree::slice_size(std::uint32_t slice) const {
  return slice_.at(slice)->size.load(std::memory_order_relaxed);
}

unsigned BTree::height(std::uint32_t slice) const {
  const EpochGuard guard;
  return versioned_load(roots_.at(slice).load(std::memory_order_acquire)->level) + 1u;
}

ChunkView BTree::root_table() const noexcept {
  return {reinterpret_cast<std::uintptr_t>(roots_.data()), roots_.size() * sizeof roots_[0]};
}

const SliceArena& BTree::arena(std::uint32_t slice) const { return slice_.at(slice)->current(); }

}  // namespace pmoss
