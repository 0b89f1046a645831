// A bounded queue between one producer and one consumer thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <type_traits>
#include <utility>
#include <vector>

namespace pmoss::runtime {

/// Each side owns one index on a line of its own and keeps a copy of the other's. It refreshes the
/// copy only when the ring looks full (or empty). So most operations touch no line that the other
/// side writes. The producer puts items into their places one by one and hands over many at once.
///
/// An item leaves the ring when the consumer is done with it, not when it is read. So the ring's
/// fill is the number of items in flight, and the producer can see how many are done.
template <typename Item>
class SpscRing {
  static_assert(std::is_trivially_copyable_v<Item>);

 public:
  /// Room for at least `capacity` items, rounded up to a power of two, in memory that is touched
  /// here.
  explicit SpscRing(std::size_t capacity,
                    std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : mask_(std::bit_ceil(std::max<std::size_t>(capacity, 2)) - 1),
        items_(mask_ + 1, Item{}, memory) {}

  std::size_t capacity() const noexcept { return mask_ + 1; }

  // Producer side.

  /// Puts an item into its place, which the consumer does not see before publish(). False if there
  /// is no room.
  bool put(const Item& item) noexcept {
    if (put_ - head_seen_ == capacity() && refreshed_room() == 0) return false;
    items_[put_++ & mask_] = item;
    return true;
  }

  /// Hands over what was put; how many items that is.
  std::size_t publish() noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    tail_.store(put_, std::memory_order_release);
    return static_cast<std::size_t>(put_ - tail);
  }

  /// Appends as many of the `count` items as fit and returns how many.
  std::size_t push(const Item* items, std::size_t count) noexcept {
    std::size_t done = 0;
    while (done < count && put(items[done])) ++done;
    publish();
    return done;
  }

  /// Items put and not yet released; the producer's view, exact at this moment.
  std::size_t in_flight() noexcept { return capacity() - refreshed_room(); }

  /// How many items were released since the producer asked last.
  std::size_t newly_released() noexcept {
    refreshed_room();
    return static_cast<std::size_t>(head_seen_ - std::exchange(asked_, head_seen_));
  }

  // Consumer side.

  /// How many items, at most `limit`, are waiting.
  std::size_t readable(std::size_t limit) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (tail_seen_ == head) tail_seen_ = tail_.load(std::memory_order_acquire);
    return std::min(limit, static_cast<std::size_t>(tail_seen_ - head));
  }

  /// The oldest item, or the one `behind` it; readable() must have said that it is there.
  const Item& front(std::size_t behind = 0) const noexcept {
    return items_[(head_.load(std::memory_order_relaxed) + behind) & mask_];
  }

  /// The oldest items are done.
  void release(std::size_t count = 1) noexcept {
    head_.store(head_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }

 private:
  std::size_t refreshed_room() noexcept {
    head_seen_ = head_.load(std::memory_order_acquire);
    return capacity() - static_cast<std::size_t>(put_ - head_seen_);
  }

  // Two lines apart: CPUs fetch lines in pairs.
  static constexpr std::size_t apart = 128;
  alignas(apart) std::atomic<std::uint64_t> tail_{0};
  // The producer's own: not on the line that the consumer looks at again and again.
  alignas(apart) std::uint64_t put_ = 0;
  std::uint64_t head_seen_ = 0;
  std::uint64_t asked_ = 0;  ///< the head when newly_released() was called last
  alignas(apart) std::atomic<std::uint64_t> head_{0};
  std::uint64_t tail_seen_ = 0;
  alignas(apart) std::size_t mask_;
  std::pmr::vector<Item> items_;
};

}  // namespace pmoss::runtime
