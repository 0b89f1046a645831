// Copies of nodes that no thread but their maker can reach yet.
#pragma once

#include <cstdint>

#include "index/node.hpp"

namespace pmoss::index_detail {

/// Makes `to` a copy of `from`, whose lock is held, as if `from` had been written to.
void copy_locked(const Node& from, Node* to) noexcept;

/// The same for a leaf that is not locked, which had `count` keys when it was read as
/// `version`. The copy is followed by the leaf `next`. It is of use only if the leaf can be locked
/// at that version afterwards. finish_copies() comes before other threads may see the copy.
void copy_unlocked(const Node& from, std::uint64_t version, unsigned count, std::uint64_t next,
                   Node* to) noexcept;
void finish_copies() noexcept;

/// Fetches what a copy of a leaf reads: first the line that tells version and count, then the rest.
inline void fetch_head(const Node* leaf) noexcept { __builtin_prefetch(leaf); }
void fetch_to_copy(const Node* leaf, unsigned count) noexcept;

}  // namespace pmoss::index_detail
