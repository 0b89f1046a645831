// Chunks from the kernel.
#include <sys/mman.h>

#include <new>

#include "index/chunk_pool.hpp"

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

}  // namespace

void UnmapChunk::operator()(std::byte* address) const noexcept { ::munmap(address, chunk_bytes); }

Chunk map_chunk(bool huge_pages) {
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

}  // namespace pmoss
