// The searches of the tree in several instruction sets, one of which is chosen at run time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "index/node.hpp"
#include "index/tracer.hpp"

namespace pmoss {

/// Instruction sets for the search within a node. All give the same results.
enum class Isa : std::uint8_t { scalar, avx2, avx512 };

/// Whether this processor, and this build, can run `isa`.
bool isa_supported(Isa isa) noexcept;
/// The widest one supported: what is used unless set_search_isa() says otherwise.
Isa best_isa() noexcept;
/// Chooses for all trees of the process, for tests and measurements. Throws std::invalid_argument
/// if not supported.
void set_search_isa(Isa isa);
Isa search_isa() noexcept;

namespace index_detail {

/// The roots of the slices, indexed by slice.
using Root = std::atomic<Node*>;

/// The searches that report to a tracer what they read.
template <class Tracer>
struct Searches {
  /// Number of keys in the node below `key`; may be anything up to slots - 1 if the node changes.
  unsigned (*lower_bound)(const Node& node, std::uint64_t key, Tracer tracer) noexcept;
  /// The same, and fetches what an insert at that place is about to move.
  unsigned (*lower_bound_to_write)(const Node& node, std::uint64_t key, Tracer tracer) noexcept;
  /// The leaf for `key`, and the version at which it was.
  Node* (*find_leaf)(const Root& root, std::uint64_t key, std::uint64_t& version,
                     Tracer tracer) noexcept;
  /// 1 or 0: a library passes it on as it is (pmoss/index.h), without a frame of its own.
  int (*lookup)(const Root& root, std::uint64_t key, std::uint64_t& value, Tracer tracer) noexcept;
};

/// Where a search has found a key, or where the key would be: in `leaf` as it was at `version`.
struct Place {
  Node* leaf = nullptr;  ///< null: a writer came in between, and nothing is known
  std::uint64_t version = 0;
  unsigned position = 0;  ///< of the first key that is not below
};

/// What a lookup does, in one instruction set.
struct SearchKernels : Searches<Untraced> {
  Isa isa;
  /// Many lookups whose cache misses overlap; returns the number of keys found. Fills `places`,
  /// unless null.
  std::size_t (*lookup_batch)(const Root* roots, std::uint32_t slices, const std::uint64_t* keys,
                              std::size_t n, std::uint64_t* values, bool* found,
                              Place* places) noexcept;
};

extern std::atomic<const SearchKernels*> chosen_kernels;

/// The kernels in use. Never null.
inline const SearchKernels& kernels() noexcept {
  return *chosen_kernels.load(std::memory_order_relaxed);
}

extern const Searches<Traced> traced_searches;

template <class Tracer>
inline const Searches<Tracer>& searches() noexcept {
  if constexpr (std::is_same_v<Tracer, Untraced>) {
    return kernels();
  } else {
    return traced_searches;
  }
}

}  // namespace index_detail
}  // namespace pmoss
