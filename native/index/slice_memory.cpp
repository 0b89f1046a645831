#include "index/slice_memory.hpp"

#include <utility>

namespace pmoss {

SliceArena& SliceMemory::enter(const numa::Placement& placement) {
  auto arena = std::make_unique<SliceArena>(pool_, placement);
  SliceArena& entered = *arena;
  const std::lock_guard lock(mutex_);
  arenas_.push_back(std::move(arena));
  current_.store(&entered, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return entered;
}

void SliceMemory::retire(RetiredArenas& retired) {
  const std::lock_guard lock(mutex_);
  // The newest is the current one: no other migration of this slice may have begun.
  retired.take_all_but_last(arenas_);
}

numa::ResidentPages SliceMemory::resident_pages() const {
  numa::ResidentPages result;
  const std::lock_guard lock(mutex_);
  for (const auto& arena : arenas_) {
    for (const ChunkView& chunk : arena->chunks()) {
      result += numa::resident_pages(reinterpret_cast<const void*>(chunk.address), chunk.bytes);
    }
  }
  return result;
}

numa::PageMove SliceMemory::move_pages(int node) {
  numa::PageMove result;
  const std::lock_guard lock(mutex_);
  for (const auto& arena : arenas_) result += arena->move_pages(node);
  return result;
}

int SliceMemory::place_from_now_on(const numa::Placement& placement) {
  int error = 0;
  const std::lock_guard lock(mutex_);
  for (const auto& arena : arenas_) {
    if (const int refused = arena->place_from_now_on(placement); refused != 0) error = refused;
  }
  return error;
}

int SliceMemory::placement_error() const {
  int error = 0;
  const std::lock_guard lock(mutex_);
  for (const auto& arena : arenas_) {
    if (const int refused = arena->placement_error(); refused != 0) error = refused;
  }
  return error;
}

}  // namespace pmoss
