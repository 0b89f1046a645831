// What an index keeps for each slice besides its root: its memory and the number of its records.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "index/arena.hpp"
#include "index/epoch.hpp"
#include "numa/placed_memory.hpp"

namespace pmoss {

/// While a slice moves, its nodes lie in several arenas, and new nodes are made in the current one.
class alignas(64) SliceMemory final : public numa::PlacedMemory {
 public:
  SliceMemory(std::shared_ptr<ChunkPool> pool, const numa::Placement& placement)
      : pool_(std::move(pool)) {
    enter(placement);
  }

  /// Where new nodes go. A caller that must not be overtaken by a migration holds the lock of the
  /// node that makes the new one necessary.
  SliceArena& current() const noexcept {
    // This fence orders the caller's lock before the load. The one in enter() orders the new arena
    // before the migration's reads of nodes. So either the allocation sees the new arena, or the
    // migration waits for the lock and then finds the new node.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return *current_.load(std::memory_order_seq_cst);
  }

  // --- a migration, of which there is one at a time (slice_migration.hpp) ---

  /// Makes an arena there the current one. Throws std::bad_alloc.
  SliceArena& enter(const numa::Placement& placement);
  /// Retires all arenas but the current one, which holds all nodes by now. After std::bad_alloc it
  /// may be called again.
  void retire(RetiredArenas& retired);
  /// False if another migration moves the slice.
  bool begin_migration() noexcept { return !migrating_.exchange(true); }
  void end_migration() noexcept { migrating_.store(false); }

  // --- where the memory lies ---

  numa::ResidentPages resident_pages() const override;
  numa::PageMove move_pages(int node) override;
  int place_from_now_on(const numa::Placement& placement) override;
  int placement_error() const override;
  /// Frees what the slice's pool keeps for slices to come.
  void free_spare() { pool_->trim(); }

  std::atomic<std::uint64_t> size{0};  ///< records

 private:
  std::shared_ptr<ChunkPool> pool_;
  mutable std::mutex mutex_;  ///< of `arenas_`
  std::vector<std::unique_ptr<SliceArena>> arenas_;
  std::atomic<bool> migrating_{false};
  std::atomic<SliceArena*> current_{nullptr};
};

}  // namespace pmoss
