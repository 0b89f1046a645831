// The one node layout of the B+-tree, and its version lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "index/backoff.hpp"
#include "index/racy.hpp"

#if PMOSS_TSAN
extern "C" void __tsan_read_range(void* address, unsigned long bytes);
#endif

namespace pmoss::index_detail {

inline constexpr unsigned leaf_capacity = 255;  // P-MOSS's leaf size
inline constexpr unsigned group_keys = 8;       // keys in one cache line
inline constexpr unsigned groups = 32;          // cache lines of keys in a node
inline constexpr unsigned line_bytes = 64;
inline constexpr unsigned slots = 256;                   // group_keys * groups
inline constexpr std::uint32_t sample_max = 0x7fffffff;  // signed compares must work
inline constexpr std::uint64_t no_key = ~std::uint64_t{0};

/// A leaf (level 0) or an inner node. Keys are sorted, those from `count` on are no_key. In a leaf,
/// words[i] is the value of keys[i]. In an inner node, words[i] is the child with the keys up to
/// and including keys[i], and words[count] the child with those above. A child is followed only
/// after the version has been checked.
/// Samples speed up the search: sample j is the last key of the j-th line of keys, cut to 31 bits,
/// (key - base) >> shift; the search then reads one line of keys instead of a chain of them.
struct alignas(64) Node {
  std::atomic<std::uint64_t> version;  // odd while locked; each unlock makes a new even number
  std::uint64_t base;
  std::uint64_t next;  // the leaf to the right, also across slices; 0 at the end
  std::uint16_t count;
  std::uint8_t shift;
  std::uint8_t level;
  alignas(64) std::uint32_t samples[groups];
  alignas(64) std::uint64_t keys[slots];
  alignas(64) std::uint64_t words[slots];

  // --- reading ---

  /// The version of an unlocked node; waits while a writer holds it.
  std::uint64_t read_begin() const noexcept {
    std::uint64_t version_read = version.load(std::memory_order_acquire);
    for (Backoff backoff; version_read & 1;
         version_read = version.load(std::memory_order_acquire)) {
      backoff.pause();
    }
    return version_read;
  }

  /// Whether everything read since read_begin() belongs to the version it returned.
  bool read_valid(std::uint64_t version_read) const noexcept {
#if PMOSS_TSAN
    return show_read(version_read);
#else
    std::atomic_thread_fence(std::memory_order_acquire);
    return version.load(std::memory_order_relaxed) == version_read;
#endif
  }

#if PMOSS_TSAN
  /// The same, and shows ThreadSanitizer that the node was read. It does so under the lock, so that
  /// no later write comes in between. The caller must hold no lock.
  bool show_read(std::uint64_t version_read) const noexcept {
    auto& shared = const_cast<std::atomic<std::uint64_t>&>(version);
    for (Backoff backoff;; backoff.pause()) {
      std::uint64_t current = version_read;
      if (shared.compare_exchange_strong(current, version_read + 1, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
        break;
      }
      // Locked since then: by a writer, or by another reader that does the same.
      if (current != version_read + 1) return false;
    }
    __tsan_read_range(const_cast<std::uint64_t*>(&base), sizeof *this - sizeof version);
    shared.store(version_read, std::memory_order_release);
    return true;
  }
#endif

  /// Never more than the slots allow, even if torn.
  unsigned safe_count() const noexcept {
    return std::min<unsigned>(versioned_load(count), leaf_capacity);
  }

  static Node* as_node(std::uint64_t word) noexcept {
    return reinterpret_cast<Node*>(static_cast<std::uintptr_t>(word));
  }
  static std::uint64_t as_word(const Node* node) noexcept {
    return reinterpret_cast<std::uintptr_t>(node);
  }

  /// `key` as a sample: monotone in the key, saturating below and above the covered range.
  std::uint32_t sample_of(std::uint64_t key) const noexcept {
    const std::uint64_t from = versioned_load(base);
    std::uint64_t offset;
    if (__builtin_sub_overflow(key, from, &offset)) offset = 0;
    const std::uint64_t cut = offset >> (versioned_load(shift) & 63);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(cut, sample_max));
  }

  // --- writing: only by the thread that holds the lock, or before the node is published ---

  /// Locks the node if nothing has changed since `version_read`.
  bool lock(std::uint64_t version_read) noexcept {
    if (!version.compare_exchange_strong(version_read, version_read + 1, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
      return false;
    }
    // No later store may be seen before the lock is.
    std::atomic_thread_fence(std::memory_order_release);
    return true;
  }

  void unlock() noexcept {
    version.store(version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  bool covers(std::uint64_t key) const noexcept {
    return key >= base && ((key - base) >> shift) < sample_max;
  }

  /// Brings the samples of some lines up to date with their keys.
  template <class Tracer>
  void set_samples(unsigned first_group, unsigned end_group, Tracer tracer) noexcept {
    tracer.reads_ahead(keys + first_group * group_keys, (end_group - first_group) * line_bytes);
    tracer.writes(samples + first_group, (end_group - first_group) * sizeof *samples);
    for (unsigned group = first_group; group < end_group; ++group) {
      versioned_store(samples[group], sample_of(keys[group * group_keys + group_keys - 1]));
    }
  }

  /// Fits the samples to the present keys, with as much room again on both sides. So ascending or
  /// descending inserts need a new fit only each time the range has doubled.
  template <class Tracer>
  void fit_samples(Tracer tracer) noexcept {
    tracer.writes(this, line_bytes);
    const std::uint64_t low = count > 0 ? keys[0] : 0;
    const std::uint64_t high = count > 0 ? keys[count - 1] : 0;
    const std::uint64_t span = high - low;
    const std::uint64_t from = low - std::min(low, span);
    const std::uint64_t to = high + std::min(no_key - high, span);
    const int bits = static_cast<int>(std::bit_width(to - from));
    versioned_store(base, from);
    versioned_store(shift, static_cast<std::uint8_t>(std::max(bits - 31, 0)));
    set_samples(0, groups, tracer);
  }

  /// Opens a gap at `position` in an array of which `used` entries are in use.
  static void open_gap(std::uint64_t* array, unsigned position, unsigned used) noexcept {
    std::memmove(array + position + 1, array + position, (used - position) * sizeof *array);
  }

  static void close_gap(std::uint64_t* array, unsigned position, unsigned used) noexcept {
    std::memmove(array + position, array + position + 1, (used - position - 1) * sizeof *array);
  }

  /// Adds a key at its sorted `position`; `word` goes beside it, or behind it in an inner node.
  template <class Tracer>
  void insert_at(unsigned position, std::uint64_t key, std::uint64_t word, Tracer tracer) noexcept {
    const unsigned inner = level > 0 ? 1 : 0;
    tracer.writes(keys + position, (count + 1u - position) * sizeof *keys);
    tracer.writes(words + position + inner, (count + 1u - position) * sizeof *words);
    tracer.writes(this, line_bytes);
    open_gap(keys, position, count);
    open_gap(words, position + inner, count + inner);
    versioned_store(keys[position], key);
    versioned_store(words[position + inner], word);
    versioned_store(count, static_cast<std::uint16_t>(count + 1));
    if (covers(key)) {
      set_samples(position / group_keys, count / group_keys, tracer);
    } else {
      fit_samples(tracer);
    }
  }

  /// Takes the entry at `position` out of a leaf.
  template <class Tracer>
  void erase_at(unsigned position, Tracer tracer) noexcept {
    tracer.writes(keys + position, (count - position) * sizeof *keys);
    tracer.writes(words + position, (count - position) * sizeof *words);
    tracer.writes(this, line_bytes);
    close_gap(keys, position, count);
    close_gap(words, position, count);
    versioned_store(keys[count - 1u], no_key);
    versioned_store(count, static_cast<std::uint16_t>(count - 1));
    set_samples(position / group_keys, count / group_keys + 1, tracer);
  }

  /// Makes a value-initialised node an empty one. It must not be published yet.
  template <class Tracer>
  void initialise(unsigned node_level, Tracer tracer) noexcept {
    level = static_cast<std::uint8_t>(node_level);
    std::fill(std::begin(keys), std::end(keys), no_key);
    fit_samples(tracer);
  }
};

/// Holds the lock of a node that lock() has granted.
class NodeLock {
 public:
  explicit NodeLock(Node& node) noexcept : node_(node) {}
  ~NodeLock() { node_.unlock(); }
  NodeLock(const NodeLock&) = delete;
  NodeLock& operator=(const NodeLock&) = delete;

 private:
  Node& node_;
};

static_assert(sizeof(Node) == 64 + 128 + 2048 + 2048);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace pmoss::index_detail
