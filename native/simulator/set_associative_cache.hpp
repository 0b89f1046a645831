// Set-associative caches with exact least-recently-used replacement, fast enough to be the inner
// loop of a simulator.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace pmoss::simulator {

/// The sixteen tags of one set, in one line of the host's cache.
struct alignas(64) TagSet {
  std::array<std::uint32_t, 16> tags;
};

/// Which of the tags equal `tag`, a bit for each.
inline unsigned matches_scalar(const TagSet& set, std::uint32_t tag) noexcept {
  unsigned matching = 0;
  for (unsigned way = 0; way < 16; ++way) matching |= (set.tags[way] == tag ? 1U : 0U) << way;
  return matching;
}

/// The same. SSE2 belongs to every x86-64, so that it is inlined. Wider vectors are slower. With
/// one AVX-512 compare in its place, chosen at compile time, native/bench's lru_bench made 3 to 18
/// % fewer accesses per second (AMD EPYC).
inline unsigned matches(const TagSet& set, std::uint32_t tag) noexcept {
#if defined(__SSE2__)
  const auto* const quads = reinterpret_cast<const __m128i*>(set.tags.data());
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(tag));
  const __m128i a = _mm_cmpeq_epi32(_mm_load_si128(quads), wanted);
  const __m128i b = _mm_cmpeq_epi32(_mm_load_si128(quads + 1), wanted);
  const __m128i c = _mm_cmpeq_epi32(_mm_load_si128(quads + 2), wanted);
  const __m128i d = _mm_cmpeq_epi32(_mm_load_si128(quads + 3), wanted);
  const __m128i bytes = _mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
  return static_cast<unsigned>(_mm_movemask_epi8(bytes));
#else
  return matches_scalar(set, tag);
#endif
}

/// Sets and ways of a cache.
struct CacheShape {
  static constexpr int max_ways = 16;

  std::uint32_t sets;
  int ways;

  /// `entries` (rounded to full sets, at least one entry) in sets of `ways`; fewer ways where there
  /// are not as many entries. More ways than 16 become more sets: where a hash
  /// scatters the lines, so many ways miss hardly more than a few more would.
  static CacheShape of(double entries, int ways);
};

/// Throws std::invalid_argument unless there are 1 to 16 ways and at least one set.
void check(const CacheShape& shape);

/// Which of `sets` sets holds a line.
inline std::size_t set_of_line(std::uint32_t line, std::uint64_t sets) noexcept {
  const std::uint64_t scattered = line * std::uint32_t{0x9e3779b1};
  return static_cast<std::size_t>(scattered * sets >> 32);
}

/// Several caches of the same shape. A line is any number but `none`; which set holds it is decided
/// by a hash of it. Each set keeps its ways in order of their last use as the sixteen nibbles of a
/// word, the most recent in the lowest; ways that hold nothing are the last ones.
class SetAssociativeCache {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// Throws std::invalid_argument unless there are 1 to 16 ways and at least one cache and set.
  SetAssociativeCache(std::size_t caches, CacheShape shape);

  /// Whether the cache holds the line, which then is its most recent one.
  bool touch(std::size_t cache, std::uint32_t line) noexcept {
    const std::size_t set = set_of(cache, line);
    const unsigned matching = matches(tags_[set], line);
    if (matching == 0) return false;
    order_[set] = moved_to_front(order_[set], static_cast<unsigned>(std::countr_zero(matching)));
    return true;
  }

  /// touch(), or where that finds nothing insert(), which drops the line that had to go.
  bool access(std::size_t cache, std::uint32_t line) noexcept {
    const std::size_t set = set_of(cache, line);
    const unsigned matching = matches(tags_[set], line);
    const std::uint64_t order = order_[set];
    if (matching != 0) {
      order_[set] = moved_to_front(order, static_cast<unsigned>(std::countr_zero(matching)));
      return true;
    }
    const auto way = static_cast<unsigned>(order >> last_nibble_ & 15);
    tags_[set].tags[way] = line;
    order_[set] = moved_last_to_front(order);
    return false;
  }

  /// Puts in a line that the cache does not hold; returns the line that had to go, or `none`.
  std::uint32_t insert(std::size_t cache, std::uint32_t line) noexcept {
    const std::size_t set = set_of(cache, line);
    const std::uint64_t order = order_[set];
    const auto way = static_cast<unsigned>(order >> last_nibble_ & 15);
    const std::uint32_t out = tags_[set].tags[way];
    tags_[set].tags[way] = line;
    order_[set] = moved_last_to_front(order);
    return out;
  }

  /// Has the host fetch what touch() and insert() of this line will read.
  void prefetch(std::size_t cache, std::uint32_t line) const noexcept {
    const std::size_t set = set_of(cache, line);
    __builtin_prefetch(&tags_[set], 1);
    __builtin_prefetch(&order_[set], 1);
  }

  bool contains(std::size_t cache, std::uint32_t line) const noexcept {
    return matches(tags_[set_of(cache, line)], line) != 0;
  }

  /// Removes the line; false if the cache does not hold it.
  bool erase(std::size_t cache, std::uint32_t line) noexcept {
    const std::size_t set = set_of(cache, line);
    const unsigned matching = matches(tags_[set], line);
    if (matching == 0) return false;
    const auto way = static_cast<unsigned>(std::countr_zero(matching));
    tags_[set].tags[way] = none;
    const std::uint64_t front = moved_to_front(order_[set], way);
    order_[set] = (front & ~used_nibbles_) | (front & used_nibbles_) >> 4 |
                  static_cast<std::uint64_t>(way) << last_nibble_;
    return true;
  }

  void clear() noexcept;

  CacheShape shape() const noexcept { return shape_; }

 private:
  std::size_t set_of(std::size_t cache, std::uint32_t line) const noexcept {
    return cache * shape_.sets + set_of_line(line, shape_.sets);
  }

  std::uint64_t moved_last_to_front(std::uint64_t order) const noexcept {
    return (order & ~used_nibbles_) | (order << 4 & used_nibbles_) | (order >> last_nibble_ & 15);
  }

  static std::uint64_t moved_to_front(std::uint64_t order, unsigned way) noexcept {
    // The lowest nibble that is zero after the exclusive or is the way's place.
    constexpr std::uint64_t ones = 0x1111111111111111;
    const std::uint64_t zero_at_place = order ^ way * ones;
    const std::uint64_t borrowed = (zero_at_place - ones) & ~zero_at_place & ones << 3;
    const unsigned place = static_cast<unsigned>(std::countr_zero(borrowed)) & ~3U;
    const std::uint64_t before = (std::uint64_t{1} << place) - 1;
    return (order & ~(before << 4 | 15)) | (order & before) << 4 | way;
  }

  CacheShape shape_;
  unsigned last_nibble_ = 0;        ///< where the least recent way stands
  std::uint64_t used_nibbles_ = 0;  ///< a mask of the ways there are
  std::vector<TagSet> tags_;
  std::vector<std::uint64_t> order_;
};

}  // namespace pmoss::simulator
