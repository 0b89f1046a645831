// Writing at the places that a batch has found, and fetching what is there.
#include <algorithm>

#include "index/btree.hpp"
#include "workload/keyspace.hpp"

namespace pmoss {

using index_detail::leaf_capacity;
using index_detail::line_bytes;
using index_detail::Node;
using index_detail::NodeLock;
using index_detail::Untraced;
using index_detail::versioned_load;
using index_detail::versioned_store;

namespace {

bool holds(const Node& leaf, unsigned position, std::uint64_t key) noexcept {
  return position < leaf.safe_count() && versioned_load(leaf.keys[position]) == key;
}

/// Fetches the lines of `n` words. Those of a torn node are of no use, but do no harm.
template <bool to_write>
void fetch_words(const std::uint64_t* words, std::size_t n) noexcept {
  const auto* line = reinterpret_cast<const char*>(words);
  const auto* const end = reinterpret_cast<const char*>(words + n);
  line -= reinterpret_cast<std::uintptr_t>(line) % line_bytes;
  for (; line < end; line += line_bytes) __builtin_prefetch(line, to_write);
}

}  // namespace

// The version of a place was read on the way down, as that of any search. So the lock is granted
// only if the leaf is still what the search has seen.

bool BTree::update_there(const Place& place, std::uint64_t key, std::uint64_t value) noexcept {
  Node* const leaf = place.leaf;
  if (leaf == nullptr || !holds(*leaf, place.position, key)) return false;
  if (!leaf->lock(place.version)) return false;
  const NodeLock lock(*leaf);
  versioned_store(leaf->words[place.position], value);
  return true;
}

/// 1 if the key was new, 0 if it was there; negative: not done.
int BTree::insert_there(const Place& place, std::uint64_t key, std::uint64_t value) noexcept {
  Node* const leaf = place.leaf;
  if (leaf == nullptr || leaf->safe_count() == leaf_capacity) return -1;
  const bool is_new = !holds(*leaf, place.position, key);
  if (!leaf->lock(place.version)) return -1;
  const NodeLock lock(*leaf);
  if (!is_new) {
    versioned_store(leaf->words[place.position], value);
    return 0;
  }
  leaf->insert_at(place.position, key, value, Untraced{});
  slice_[slice_of_key(key, slices_)]->size.fetch_add(1, std::memory_order_relaxed);
  return 1;
}

void BTree::fetch_to_insert(const Place& place) const noexcept {
  Node* const leaf = place.leaf;
  if (leaf == nullptr) return;
  const unsigned count = leaf->safe_count();
  if (count < place.position) return;
  fetch_words<true>(leaf->keys + place.position, count + 1 - place.position);
  fetch_words<true>(leaf->words + place.position, count + 1 - place.position);
}

void BTree::fetch_to_scan(const Place& place, std::size_t limit) const noexcept {
  const Node* const leaf = place.leaf;
  if (leaf == nullptr) return;
  const unsigned count = leaf->safe_count();
  const std::size_t left = count > place.position ? count - place.position : 0;
  const std::size_t n = std::min(left, limit);
  fetch_words<false>(leaf->keys + place.position, n);
  fetch_words<false>(leaf->words + place.position, n);
  const std::uint64_t next = versioned_load(leaf->next);
  if (n == limit || next == 0) return;
  const std::size_t more = std::min<std::size_t>(limit - n, leaf_capacity);
  __builtin_prefetch(Node::as_node(next));
  fetch_words<false>(Node::as_node(next)->keys, more);
  fetch_words<false>(Node::as_node(next)->words, more);
}

}  // namespace pmoss
