// Reads and writes of words that several threads share without a lock.
//
// Single words are relaxed atomics. Blocks are copied by plain code and compared by vector
// instructions, which the language cannot make atomic. Whoever reads a block unlocked uses nothing
// of it before the version of its node has been checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__SANITIZE_THREAD__)
#define PMOSS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PMOSS_TSAN 1
#endif
#endif
#ifndef PMOSS_TSAN
#define PMOSS_TSAN 0
#endif

namespace pmoss::index_detail {

template <class T>
inline T relaxed_load(const T& word) noexcept {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

template <class T>
inline void relaxed_store(T& word, T value) noexcept {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}

// Words that a version protects (Node). ThreadSanitizer must not see a read before the version was
// checked, since such a read may race and is then thrown away. It sees all writes as plain ones,
// and Node::read_valid() shows it the reads that count. So it reports every write that is not
// ordered with a read that was used.

#if PMOSS_TSAN

template <class T>
[[gnu::noinline, gnu::no_sanitize_thread]] T versioned_load(const T& word) noexcept {
  return *static_cast<const volatile T*>(&word);
}

template <class T>
inline void versioned_store(T& word, T value) noexcept {
  word = value;
}

template <class T>
[[gnu::noinline, gnu::no_sanitize_thread]] void versioned_copy(const T* from, std::size_t n,
                                                               T* to) noexcept {
  for (std::size_t i = 0; i < n; ++i) to[i] = versioned_load(from[i]);
}

#else

template <class T>
inline T versioned_load(const T& word) noexcept {
  return relaxed_load(word);
}

template <class T>
inline void versioned_store(T& word, T value) noexcept {
  relaxed_store(word, value);
}

template <class T>
inline void versioned_copy(const T* from, std::size_t n, T* to) noexcept {
  // One copy of many lines: memcpy() takes the widest vectors that the processor has.
  std::memcpy(to, from, n * sizeof *to);
}

#endif

/// A block of `n` words from `from` on.
template <std::size_t n, class T>
inline std::array<T, n> versioned_block(const T* from) noexcept {
  std::array<T, n> block;
#if PMOSS_TSAN
  versioned_copy(from, n, block.data());
#else
  std::memcpy(block.data(), from, sizeof block);
#endif
  return block;
}

}  // namespace pmoss::index_detail
