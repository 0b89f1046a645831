// Mapping of aligned chunks and the bump pointer.
#include "index/arena.hpp"

#include <sys/mman.h>

#include <new>

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
  return reinterpret_cast<std::uintptr_t>(address) % SliceArena::chunk_bytes == 0;
}

}  // namespace

void SliceArena::Unmap::operator()(std::byte* address) const noexcept {
  ::munmap(address, chunk_bytes);
}

SliceArena::Chunk SliceArena::map_chunk(bool huge_pages) {
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
  ::madvise(memory, chunk_bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return chunk;
}

void* SliceArena::allocate(std::size_t bytes) {
  const std::size_t padded = (bytes + alignment - 1) / alignment * alignment;
  if (padded > chunk_bytes) throw std::bad_alloc();
  const std::lock_guard lock(mutex_);
  if (used_in_last_ + padded > chunk_bytes) {
    chunks_.reserve(chunks_.size() + 1);  // so that push_back cannot lose the new chunk
    chunks_.push_back(map_chunk(huge_pages_));
    used_in_last_ = 0;
  }
  std::byte* const memory = chunks_.back().get() + used_in_last_;
  used_in_last_ += padded;
  bytes_used_ += padded;
  ++nodes_;
  return memory;
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

}  // namespace pmoss
