// What the tree keeps for each slice besides its root.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "index/arena.hpp"
#include "index/btree.hpp"

namespace pmoss {

/// While a slice moves, its nodes lie in several arenas; new ones go to the current one.
struct alignas(64) BTree::Slice {
  Slice(std::shared_ptr<ChunkPool> pool, const numa::Placement& placement) {
    enter(std::make_unique<SliceArena>(std::move(pool), placement));
  }

  /// The caller must hold the lock of the node that makes the new one necessary.
  SliceArena& current() const noexcept {
    // Orders the lock before the load, as enter() orders the new arena before all reads of nodes
    // that follow there: either the allocation goes to the new arena, or the migration waits for
    // the lock and then finds the new node.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return *current_.load(std::memory_order_seq_cst);
  }

  void enter(std::unique_ptr<SliceArena> arena) {
    const std::lock_guard lock(mutex);
    arenas.push_back(std::move(arena));
    current_.store(arenas.back().get(), std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  std::mutex mutex;  ///< of `arenas`
  std::vector<std::unique_ptr<SliceArena>> arenas;
  std::atomic<bool> migrating{false};
  std::atomic<std::uint64_t> size{0};

 private:
  std::atomic<SliceArena*> current_{nullptr};
};

}  // namespace pmoss
