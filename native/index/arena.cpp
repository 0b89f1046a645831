#include "index/arena.hpp"

#include <new>
#include <utility>

namespace pmoss {

SliceArena::~SliceArena() {
  // Without their placement the chunks are of no use to others.
  if (placement_error_ != 0) return;
  for (Chunk& chunk : chunks_) {
    try {
      // The next slice is about as large: more than one at a time is not copied.
      pool_->give_back(std::move(chunk), placement_, chunks_.size());
    } catch (const std::bad_alloc&) {
      // No room to remember it: it is unmapped instead.
    }
  }
}

namespace {

constexpr std::size_t padded_to_line(std::size_t bytes) noexcept {
  constexpr std::size_t line = SliceArena::alignment;
  return (bytes + line - 1) / line * line;
}

}  // namespace

void* SliceArena::allocate(std::size_t bytes) {
  const std::size_t padded = padded_to_line(bytes);
  if (padded > chunk_bytes) throw std::bad_alloc();
  const std::lock_guard lock(mutex_);
  for (Unused** at = &unused_; *at != nullptr; at = &(*at)->next) {
    if ((*at)->bytes != padded) continue;
    Unused* const reused = *at;
    *at = reused->next;
    bytes_used_ += padded;
    ++nodes_;
    return reused;
  }
  if (used_in_last_ + padded > chunk_bytes) {
    chunks_.push_back(pool_->take(placement_, &placement_error_));
    used_in_last_ = 0;
  }
  std::byte* const memory = chunks_.back().get() + used_in_last_;
  used_in_last_ += padded;
  bytes_used_ += padded;
  ++nodes_;
  return memory;
}

void SliceArena::take_back(void* memory, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t padded = padded_to_line(bytes);
  unused_ = ::new (memory) Unused{unused_, padded};
  bytes_used_ -= padded;
  --nodes_;
}

bool SliceArena::owns(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  for (const auto& chunk : chunks_) {
    if (at - reinterpret_cast<std::uintptr_t>(chunk.get()) < chunk_bytes) return true;
  }
  return false;
}

std::vector<ChunkView> SliceArena::chunks() const {
  const std::lock_guard lock(mutex_);
  std::vector<ChunkView> views;
  views.reserve(chunks_.size());
  for (const auto& chunk : chunks_) {
    views.push_back({reinterpret_cast<std::uintptr_t>(chunk.get()), chunk_bytes});
  }
  return views;
}

std::size_t SliceArena::bytes_used() const {
  const std::lock_guard lock(mutex_);
  return bytes_used_;
}

std::size_t SliceArena::bytes_reserved() const {
  const std::lock_guard lock(mutex_);
  return chunks_.size() * chunk_bytes;
}

std::size_t SliceArena::nodes() const {
  const std::lock_guard lock(mutex_);
  return nodes_;
}

numa::Placement SliceArena::placement() const {
  const std::lock_guard lock(mutex_);
  return placement_;
}

int SliceArena::placement_error() const {
  const std::lock_guard lock(mutex_);
  return placement_error_;
}

int SliceArena::place_from_now_on(const numa::Placement& placement) {
  const std::lock_guard lock(mutex_);
  if (placement_ == placement && placement_error_ == 0) return 0;
  placement_ = placement;
  placement_error_ = 0;
  for (const auto& chunk : chunks_) {
    const int error = numa::set_placement(chunk.get(), chunk_bytes, placement);
    if (error != 0) placement_error_ = error;
  }
  return placement_error_;
}

numa::PageMove SliceArena::move_pages(int node) {
  numa::PageMove result;
  result.error_number = place_from_now_on(numa::Placement::on(node));
  // Without the lock: allocating goes on meanwhile, and what it touches is placed already.
  for (const ChunkView& chunk : chunks()) {
    result += numa::move_pages(reinterpret_cast<void*>(chunk.address), chunk.bytes, node);
  }
  return result;
}

}  // namespace pmoss
