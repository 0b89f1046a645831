#include "index/chunk_pool.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace pmoss {
namespace {

std::byte* map_bytes(std::size_t bytes) {
  // No reservation of swap space: a chunk costs only the pages that are touched.
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

bool is_aligned(const std::byte* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) % chunk_bytes == 0;
}

void touch_all(std::byte* chunk) noexcept {
  constexpr std::size_t page = 4096;
  for (std::size_t at = 0; at < chunk_bytes; at += page) {
    *static_cast<volatile std::byte*>(chunk + at) = std::byte{0};
  }
}

}  // namespace

void UnmapChunk::operator()(std::byte* address) const noexcept { ::munmap(address, chunk_bytes); }

Chunk ChunkPool::map(const numa::Placement& placement, int* refused) {
  std::byte* memory = map_bytes(chunk_bytes);
  if (!is_aligned(memory)) {
    ::munmap(memory, chunk_bytes);
    std::byte* const twice = map_bytes(2 * chunk_bytes);
    // The upper of the possible places: then the next mapping, which the kernel puts below, joins
    // this one in a single kernel memory area.
    const auto excess = reinterpret_cast<std::uintptr_t>(twice) % chunk_bytes;
    memory = twice + (chunk_bytes - excess);
    ::munmap(twice, static_cast<std::size_t>(memory - twice));
    if (excess != 0) ::munmap(memory + chunk_bytes, excess);
  }
  Chunk chunk(memory);
  // Advice: where the kernel has no huge pages the chunk works all the same.
  ::madvise(memory, chunk_bytes, huge_pages_ ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  if (placement != numa::Placement{}) {
    const int error = numa::set_placement(memory, chunk_bytes, placement);
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

void ChunkPool::give_back(Chunk chunk, const numa::Placement& placement, std::size_t most) {
  if (placement.kind == numa::Placement::Kind::first_touch) return;
  {
    const std::lock_guard lock(mutex_);
    if (const auto kept = free_.find(placement); kept != free_.end() && kept->second.size() >= most)
      return;
  }
  // A node may have been full, or the pages older than their placement. Such pages are of no use to
  // a caller that asks for this place.
  const numa::ResidentPages pages = numa::resident_pages(chunk.get(), chunk_bytes);
  if (pages.error_number != 0 || pages.home(placement) != pages.total()) return;
  const std::lock_guard lock(mutex_);
  auto& kept = free_[placement];
  if (kept.size() < most) kept.push_back(std::move(chunk));
}

void ChunkPool::reserve(const numa::Placement& placement, std::size_t chunks) {
  std::vector<Chunk> fresh;
  {
    const std::lock_guard lock(mutex_);
    const std::size_t there = free_[placement].size();
    if (there >= chunks) return;
    fresh.reserve(chunks - there);
    chunks -= there;
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
