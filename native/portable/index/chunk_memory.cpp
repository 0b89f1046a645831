// Chunks from the C++ library.
#include <new>

#include "index/chunk_pool.hpp"

namespace pmoss {

void UnmapChunk::operator()(std::byte* address) const noexcept {
  ::operator delete(address, chunk_bytes, std::align_val_t{chunk_bytes});
}

Chunk map_chunk(bool) {
  return Chunk(static_cast<std::byte*>(::operator new(chunk_bytes, std::align_val_t{chunk_bytes})));
}

}  // namespace pmoss
