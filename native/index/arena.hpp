// Memory of one slice: whole 2 MiB chunks from which nodes are taken by advancing a pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "index/chunk_pool.hpp"
#include "numa/memory.hpp"

namespace pmoss {

/// An address range that holds nodes of one slice and nothing else, so that it can be given to
/// another NUMA node as a whole.
struct ChunkView {
  std::uintptr_t address;
  std::size_t bytes;
};

/// Hands out memory that stays valid until the arena dies; then its chunks go back to their pool.
/// Pages are touched only when a node is written to them. All members may be
/// called by several threads at once.
class SliceArena {
 public:
  static constexpr std::size_t chunk_bytes = pmoss::chunk_bytes;
  static constexpr std::size_t alignment = 64;

  explicit SliceArena(bool huge_pages)
      : SliceArena(std::make_shared<ChunkPool>(huge_pages), numa::Placement{}) {}
  SliceArena(std::shared_ptr<ChunkPool> pool, const numa::Placement& placement)
      : pool_(std::move(pool)), placement_(placement) {}
  ~SliceArena();
  SliceArena(const SliceArena&) = delete;
  SliceArena& operator=(const SliceArena&) = delete;

  /// Memory for one node, aligned to a cache line; `bytes` is at most chunk_bytes. Its content is
  /// undefined. Throws std::bad_alloc.
  void* allocate(std::size_t bytes);
  /// Takes back memory from allocate(bytes) that no thread has seen. It is handed out again.
  void take_back(void* memory, std::size_t bytes) noexcept;

  /// Whether the address lies in one of the chunks.
  bool owns(const void* address) const;
  std::vector<ChunkView> chunks() const;
  /// Bytes handed out, with the padding that alignment costs.
  std::size_t bytes_used() const;
  /// Bytes of address space held: whole chunks.
  std::size_t bytes_reserved() const;
  /// Number of nodes handed out.
  std::size_t nodes() const;

  numa::Placement placement() const;
  /// Moves what is there to `node`, and places what comes there, while others read and write it.
  numa::PageMove move_pages(int node);
  /// Places only pages that have not been touched yet. 0 or the errno.
  int place_from_now_on(const numa::Placement& placement);
  /// Why the kernel last refused to place a chunk; 0 if none is where the kernel chose.
  int placement_error() const;

 private:
  std::shared_ptr<ChunkPool> pool_;
  mutable std::mutex mutex_;
  numa::Placement placement_;
  int placement_error_ = 0;
  std::vector<Chunk> chunks_;
  struct Unused {
    Unused* next;
    std::size_t bytes;
  };
  Unused* unused_ = nullptr;                // memory that was taken back
  std::size_t used_in_last_ = chunk_bytes;  // full: the first node brings the first chunk
  std::size_t bytes_used_ = 0;
  std::size_t nodes_ = 0;
};

}  // namespace pmoss
