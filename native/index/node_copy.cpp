#include "index/node_copy.hpp"

#include <algorithm>
#include <iterator>
#include <new>

#if defined(__SSE2__) && !PMOSS_TSAN
#define PMOSS_STREAMS 1
#include <emmintrin.h>
#else
#define PMOSS_STREAMS 0
#endif

namespace pmoss::index_detail {
namespace {

constexpr unsigned line_words = line_bytes / sizeof(std::uint64_t);

constexpr unsigned lines_of(unsigned count) noexcept {
  return (count + line_words - 1) / line_words;
}

/// The first line of a copy. Its version is the one that a write to `from`, read as `version`,
/// would have made: no version of a node and its copies comes twice.
void begin_copy(const Node& from, std::uint64_t version, std::uint64_t next, Node* to) noexcept {
  to->version.store(version + 2, std::memory_order_relaxed);
  to->base = versioned_load(from.base);
  to->next = next;
  to->count = versioned_load(from.count);
  to->shift = versioned_load(from.shift);
  to->level = versioned_load(from.level);
}

#if PMOSS_STREAMS

/// Whole lines past the caches, so that they need not be fetched before they are overwritten.
void stream_lines(const void* from, unsigned lines, void* to) noexcept {
  const auto* source = static_cast<const __m128i*>(from);
  auto* target = static_cast<__m128i*>(to);
  for (const auto* const end = source + lines * (line_bytes / sizeof *source); source != end;) {
    const __m128i a = _mm_load_si128(source++);
    const __m128i b = _mm_load_si128(source++);
    const __m128i c = _mm_load_si128(source++);
    const __m128i d = _mm_load_si128(source++);
    _mm_stream_si128(target++, a);
    _mm_stream_si128(target++, b);
    _mm_stream_si128(target++, c);
    _mm_stream_si128(target++, d);
  }
}

void stream_no_keys(unsigned lines, void* to) noexcept {
  const __m128i none = _mm_set1_epi64x(static_cast<long long>(no_key));
  auto* target = static_cast<__m128i*>(to);
  for (const auto* const end = target + lines * (line_bytes / sizeof *target); target != end;) {
    _mm_stream_si128(target++, none);
  }
}

#endif

}  // namespace

void copy_locked(const Node& from, Node* to) noexcept {
  ::new (to) Node;  // starts the atomic's life; the rest is filled below
  begin_copy(from, from.version.load(std::memory_order_relaxed) - 1, from.next, to);
  const unsigned count = from.count;
  const unsigned words = from.level > 0 ? count + 1 : count;
  std::copy(std::begin(from.samples), std::end(from.samples), to->samples);
  std::copy_n(from.keys, count, to->keys);
  std::fill(to->keys + count, std::end(to->keys), no_key);
  // Words that are not in use are never looked at.
  std::copy_n(from.words, words, to->words);
}

void copy_unlocked(const Node& from, std::uint64_t version, unsigned count, std::uint64_t next,
                   Node* to) noexcept {
  ::new (to) Node;
  // Searches and the next migration look at the first line soon: it stays in the caches.
  begin_copy(from, version, next, to);
#if PMOSS_STREAMS
  const unsigned lines = lines_of(count);
  stream_lines(from.samples, sizeof from.samples / line_bytes, to->samples);
  stream_lines(from.keys, lines, to->keys);
  stream_no_keys(groups - lines, to->keys + lines * line_words);
  stream_lines(from.words, lines, to->words);
#else
  versioned_copy(from.samples, groups, to->samples);
  versioned_copy(from.keys, count, to->keys);
  std::fill(to->keys + count, std::end(to->keys), no_key);
  versioned_copy(from.words, count, to->words);
#endif
}

void finish_copies() noexcept {
#if PMOSS_STREAMS
  // Locks and releases order ordinary stores only.
  _mm_sfence();
#endif
}

void fetch_to_copy(const Node* leaf, unsigned count) noexcept {
  const auto fetch = [](const void* from, unsigned lines) {
    // Not into the first level, which waits for few lines at a time.
    const auto* const at = static_cast<const char*>(from);
    for (unsigned i = 0; i < lines; ++i) __builtin_prefetch(at + i * line_bytes, 0, 2);
  };
  const unsigned lines = lines_of(count);
  fetch(leaf->samples, sizeof leaf->samples / line_bytes + lines);
  fetch(leaf->words, lines);
}

}  // namespace pmoss::index_detail
