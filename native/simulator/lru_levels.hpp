// Misses of streams of lines in several levels of exact least-recently-used caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simulator/set_associative_cache.hpp"

namespace pmoss::simulator {

/// One level, as kernels see it.
struct LruLevel {
  TagSet* tags;  ///< per set, in order of recency; a kernel lays out the sixteen as it likes
  std::uint64_t sets;
  unsigned ways;
};

/// What one instruction set does with a block of lines. All miss the same lines.
struct LruKernel {
  const char* name;
  /// Touches `n` lines one after the other. Writes those that missed to `missed`, which has room
  /// for all, and returns how many. Fetches the sets of `next`, unless that is null.
  std::size_t (*filter)(const LruLevel& level, const LruLevel* next, const std::uint32_t* lines,
                        std::size_t n, std::uint32_t* missed) noexcept;
};

/// What this processor and this build can run, the fastest first.
std::span<const LruKernel> lru_kernels();

/// Levels of caches, the first one first. A line that misses in one is looked up in the next. Sets
/// are chosen as by SetAssociativeCache, so that misses are the same.
///
/// A stream that is known needs no answer for each line. So a block of lines passes one level, and
/// what missed passes the next. Tags stand in order of recency: a hit, a miss and an eviction are
/// the same shift of the tags before a place, without a branch.
class LruLevels {
 public:
  /// Throws std::invalid_argument as SetAssociativeCache does, and without levels.
  explicit LruLevels(std::span<const CacheShape> shapes,
                     const LruKernel& kernel = lru_kernels().front());
  // Levels point to the tags.
  LruLevels(const LruLevels&) = delete;
  LruLevels& operator=(const LruLevels&) = delete;
  LruLevels(LruLevels&&) = default;
  LruLevels& operator=(LruLevels&&) = default;
  ~LruLevels() = default;

  /// Touches lines in their order; any but SetAssociativeCache::none.
  void access(std::span<const std::uint32_t> lines) noexcept;

  /// Per level, since the beginning.
  std::span<const std::uint64_t> misses() const noexcept { return misses_; }

 private:
  LruKernel kernel_;
  std::vector<std::vector<TagSet>> tags_;
  std::vector<LruLevel> levels_;
  std::vector<std::uint64_t> misses_;
};

}  // namespace pmoss::simulator
