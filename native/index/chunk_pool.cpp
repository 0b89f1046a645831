#include "index/chunk_pool.hpp"

#include <new>
#include <utility>

namespace pmoss {
namespace {

void touch_all(std::byte* chunk) noexcept {
  constexpr std::size_t page = 4096;
  for (std::size_t at = 0; at < chunk_bytes; at += page) {
    *static_cast<volatile std::byte*>(chunk + at) = std::byte{0};
  }
}

}  // namespace

Chunk ChunkPool::map(const numa::Placement& placement, int* refused) {
  Chunk chunk = map_chunk(huge_pages_);
  if (placement != numa::Placement{}) {
    const int error = numa::set_placement(chunk.get(), chunk_bytes, placement);
    if (error != 0 && refused != nullptr) *refused = error;
  }
  return chunk;
}

Chunk ChunkPool::take(const numa::Placement& placement, int* refused) {
  {
    const std::lock_guard lock(mutex_);
    const auto held = free_.find(placement);
    if (held != free_.end() && !held->second.empty()) {
      Chunk chunk = std::move(held->second.back());
      held->second.pop_back();
      return chunk;
    }
  }
  return map(placement, refused);
}

bool ChunkPool::holds(const numa::Placement& placement, std::size_t limit) const {
  const std::lock_guard lock(mutex_);
  const auto kept = free_.find(placement);
  return kept != free_.end() && kept->second.size() >= limit;
}

void ChunkPool::give_back(Chunk chunk, const numa::Placement& placement, std::size_t limit) {
  if (holds(placement, limit)) return;
  // A node may have been full, or the pages older than their placement. Such pages are of no use to
  // a caller that asks for this place.
  const numa::ResidentPages pages = numa::resident_pages(chunk.get(), chunk_bytes);
  if (pages.error_number != 0) return;
  numa::Placement home = placement;
  if (home.kind == numa::Placement::Kind::first_touch) {
    // All of it was touched first on one node, so it serves requests for that one.
    if (pages.on_node.size() != 1) return;
    home = numa::Placement::on(pages.on_node.begin()->first);
    if (holds(home, limit)) return;
    if (numa::set_placement(chunk.get(), chunk_bytes, home) != 0) return;
  } else if (pages.home(home) != pages.total()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  auto& kept = free_[home];
  if (kept.size() < limit) kept.push_back(std::move(chunk));
}

void ChunkPool::reserve(const numa::Placement& placement, std::size_t chunks) {
  std::vector<Chunk> fresh;
  {
    const std::lock_guard lock(mutex_);
    const std::size_t kept = free_[placement].size();
    if (kept >= chunks) return;
    fresh.reserve(chunks - kept);
    chunks -= kept;
  }
  while (fresh.size() < chunks) {
    fresh.push_back(map(placement, nullptr));
    touch_all(fresh.back().get());
  }
  const std::lock_guard lock(mutex_);
  auto& list = free_[placement];
  for (Chunk& chunk : fresh) list.push_back(std::move(chunk));
}

void ChunkPool::trim() {
  const std::lock_guard lock(mutex_);
  free_.clear();
}

std::size_t ChunkPool::held() const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [placement, chunks] : free_) sum += chunks.size();
  return sum;
}

}  // namespace pmoss
