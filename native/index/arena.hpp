// Memory of one slice: whole 2 MiB chunks from which nodes are taken by advancing a pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace pmoss {

/// An address range that holds nodes of one slice and nothing else, so that it can be given to
/// another NUMA node as a whole.
struct ChunkView {
  std::uintptr_t address;
  std::size_t bytes;
};

/// Hands out memory that stays valid, and is never reused, until the arena dies. Chunks are aligned
/// to their size, which is that of a huge page: moving any address of a huge page moves all of it,
/// so no two slices may share one. Pages are touched only when a node is written to them.
/// All members may be called by several threads at once.
class SliceArena {
 public:
  static constexpr std::size_t chunk_bytes = std::size_t{2} << 20;
  static constexpr std::size_t alignment = 64;

  explicit SliceArena(bool huge_pages) noexcept : huge_pages_(huge_pages) {}

  /// Zeroed memory for one node, aligned to a cache line; `bytes` is at most chunk_bytes.
  /// Throws std::bad_alloc.
  void* allocate(std::size_t bytes);

  std::vector<ChunkView> chunks() const;
  /// Bytes handed out, with the padding that alignment costs.
  std::size_t bytes_used() const;
  /// Bytes of address space held: whole chunks.
  std::size_t bytes_reserved() const;
  /// Number of nodes handed out.
  std::size_t nodes() const;

 private:
  struct Unmap {
    void operator()(std::byte* address) const noexcept;
  };
  using Chunk = std::unique_ptr<std::byte, Unmap>;

  static Chunk map_chunk(bool huge_pages);

  mutable std::mutex mutex_;
  std::vector<Chunk> chunks_;
  std::size_t used_in_last_ = chunk_bytes;  // full: the first node brings the first chunk
  std::size_t bytes_used_ = 0;
  std::size_t nodes_ = 0;
  bool huge_pages_;
};

}  // namespace pmoss
