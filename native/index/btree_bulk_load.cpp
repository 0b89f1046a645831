// Building the tree from sorted keys: leaves from left to right, then one level above the other.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "index/btree.hpp"
#include "workload/keyspace.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

using index_detail::leaf_capacity;
using index_detail::Node;
using index_detail::Untraced;

constexpr std::size_t child_capacity = leaf_capacity + 1;

/// How many of the `left` entries go into the next node. Only a slice's one node on a level may be
/// less than half full.
std::size_t draw_entries(Random& random, std::size_t left, std::size_t capacity) {
  if (left <= capacity) return left;
  const double fill = 1.0 / (2.0 - random.uniform());
  const auto drawn = static_cast<std::size_t>(fill * static_cast<double>(capacity));
  return left - drawn < capacity / 2 ? left / 2 : drawn;
}

void check(std::span<const std::uint64_t> keys, std::span<const std::uint64_t> values) {
  if (keys.size() != values.size()) {
    throw std::invalid_argument("there are " + std::to_string(values.size()) + " values for " +
                                std::to_string(keys.size()) + " keys; each key needs one");
  }
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (keys[i - 1] < keys[i]) continue;
    const bool repeats = keys[i - 1] == keys[i];
    throw std::invalid_argument("key " + std::to_string(keys[i]) + " at position " +
                                std::to_string(i) + (repeats ? " repeats" : " is smaller than") +
                                " the one before it; keys must ascend");
  }
}

/// Nodes of one level from left to right, each with the largest key below it.
struct Level {
  std::vector<Node*> nodes;
  std::vector<std::uint64_t> last_keys;
};

/// Writes the leaves, of which `node` is the first; new_one(height) makes the others.
template <class NewNode>
Level load_leaves(Node& first, NewNode new_one, std::span<const std::uint64_t> keys,
                  std::span<const std::uint64_t> values, Random& random) {
  Level level;
  Node* node = &first;
  const std::uint64_t next_slice = node->next;
  for (std::size_t done = 0; done < keys.size();) {
    const std::size_t n = draw_entries(random, keys.size() - done, leaf_capacity);
    if (done > 0) {
      Node* const right = new_one(0);
      node->next = Node::as_word(right);
      node = right;
    }
    std::copy_n(keys.begin() + static_cast<std::ptrdiff_t>(done), n, node->keys);
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(done), n, node->words);
    node->count = static_cast<std::uint16_t>(n);
    node->fit_samples(Untraced{});
    done += n;
    level.nodes.push_back(node);
    level.last_keys.push_back(keys[done - 1]);
  }
  node->next = next_slice;
  return level;
}

template <class NewNode>
Level level_above(const Level& level, unsigned height, NewNode new_one, Random& random) {
  Level above;
  for (std::size_t done = 0; done < level.nodes.size();) {
    const std::size_t n = draw_entries(random, level.nodes.size() - done, child_capacity);
    Node* const node = new_one(height);
    for (std::size_t i = 0; i < n; ++i) node->words[i] = Node::as_word(level.nodes[done + i]);
    // The last child has no key of its own: it takes all above the others.
    for (std::size_t i = 0; i + 1 < n; ++i) node->keys[i] = level.last_keys[done + i];
    node->count = static_cast<std::uint16_t>(n - 1);
    node->fit_samples(Untraced{});
    done += n;
    above.nodes.push_back(node);
    above.last_keys.push_back(level.last_keys[done - 1]);
  }
  return above;
}

}  // namespace

void BTree::bulk_load(std::uint32_t first, std::uint32_t last, std::span<const std::uint64_t> keys,
                      std::span<const std::uint64_t> values, std::uint64_t seed) {
  check(keys, values);
  if (first > last || last > slices_) {
    throw std::invalid_argument("slices " + std::to_string(first) + " to before " +
                                std::to_string(last) + " of " + std::to_string(slices_) +
                                ": there are no such slices");
  }
  if (!keys.empty()) {
    for (const std::uint64_t key : {keys.front(), keys.back()}) {
      const std::uint32_t slice = slice_of_key(key, slices_);
      if (slice >= first && slice < last) continue;
      throw std::invalid_argument("key " + std::to_string(key) + " is of slice " +
                                  std::to_string(slice) + ", not of slices " +
                                  std::to_string(first) + " to before " + std::to_string(last));
    }
  }
  for (std::uint32_t slice = first; slice < last; ++slice) {
    if (!is_new(slice)) {
      throw std::logic_error("slice " + std::to_string(slice) + " has been used, with " +
                             std::to_string(slice_size(slice)) +
                             " keys left; only a new tree can be loaded");
    }
  }
  std::size_t begin = 0;
  for (std::uint32_t slice = first; slice < last && begin < keys.size(); ++slice) {
    std::size_t end = keys.size();
    if (slice + 1 < slices_) {
      const auto first_of_next =
          std::lower_bound(keys.begin() + static_cast<std::ptrdiff_t>(begin), keys.end(),
                           first_key_of_slice(slice + 1, slices_));
      end = static_cast<std::size_t>(first_of_next - keys.begin());
    }
    load_slice(slice, keys.subspan(begin, end - begin), values.subspan(begin, end - begin),
               mix64(mix64(seed) + slice));
    begin = end;
  }
}

void BTree::load_slice(std::uint32_t slice, std::span<const std::uint64_t> keys,
                       std::span<const std::uint64_t> values, std::uint64_t seed) {
  if (keys.empty()) return;
  // The leaf that is there stays the first one: the slice on the left points to it.
  Node* const first = roots_[slice].load(std::memory_order_relaxed);
  const std::uint64_t next_slice = first->next;
  std::vector<Node*> made;
  try {
    const auto new_one = [&](unsigned height) {
      made.push_back(nullptr);
      return made.back() = new_node(slice, height);
    };
    Random random(seed);
    Level level = load_leaves(*first, new_one, keys, values, random);
    for (unsigned height = 1; level.nodes.size() > 1; ++height) {
      level = level_above(level, height, new_one, random);
    }
    slice_[slice]->size.store(keys.size(), std::memory_order_relaxed);
    roots_[slice].store(level.nodes.front(), std::memory_order_release);
  } catch (...) {
    SliceArena& arena = slice_[slice]->current();
    for (Node* const node : made) {
      if (node != nullptr) arena.take_back(node, sizeof *node);
    }
    first->count = 0;
    first->initialise(0, Untraced{});
    first->next = next_slice;
    throw;
  }
}

}  // namespace pmoss
