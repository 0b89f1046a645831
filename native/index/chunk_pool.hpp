// Aligned 2 MiB chunks of memory with a placement of their own, kept for reuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "numa/memory.hpp"

namespace pmoss {

/// A chunk is as large as a huge page and aligned to it: moving any address of a huge page moves
/// all of it, so no two slices may share one.
inline constexpr std::size_t chunk_bytes = std::size_t{2} << 20;

struct UnmapChunk {
  void operator()(std::byte* address) const noexcept;
};
using Chunk = std::unique_ptr<std::byte, UnmapChunk>;

/// A fresh chunk, none of whose pages is touched. Throws std::bad_alloc.
/// `huge_pages` is a wish: where there are none the chunk works all the same.
Chunk map_chunk(bool huge_pages);

/// Maps chunks, gives each its placement before it is touched, and keeps some that are no longer
/// needed. A chunk that was used or reserved has its pages already: writing to fresh memory costs
/// several times what copying a leaf does. All members may be called by several threads.
class ChunkPool {
 public:
  explicit ChunkPool(bool huge_pages) noexcept : huge_pages_(huge_pages) {}

  /// Its content is undefined. Throws std::bad_alloc. Sets `refused`, if not null, to the errno of
  /// a placement that the kernel refuses; the chunk is good all the same.
  Chunk take(const numa::Placement& placement, int* refused = nullptr);
  /// Keeps it for the next that asks for this placement, unless `limit` are kept there already. A
  /// chunk is freed, too, if its pages have come to lie elsewhere. One whose pages lie where they
  /// were touched first is kept for their node, if they are all on one.
  void give_back(Chunk chunk, const numa::Placement& placement, std::size_t limit);

  /// Holds `chunks` at least, with all pages touched. Throws std::bad_alloc.
  void reserve(const numa::Placement& placement, std::size_t chunks);
  /// Frees all that are held.
  void trim();
  std::size_t held() const;

 private:
  Chunk map(const numa::Placement& placement, int* refused);
  bool holds(const numa::Placement& placement, std::size_t limit) const;

  bool huge_pages_;
  mutable std::mutex mutex_;
  std::map<numa::Placement, std::vector<Chunk>> free_;
};

}  // namespace pmoss
