#include "runtime/spsc_ring.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <thread>

#include "runtime/item.hpp"

namespace pmoss::runtime {
namespace {

TEST(SpscRing, HoldsItsCapacityAndNoMore) {
  SpscRing<std::uint64_t> ring(5);
  ASSERT_EQ(ring.capacity(), 8U);
  const std::array<std::uint64_t, 10> items{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(ring.readable(100), 0U);
  EXPECT_EQ(ring.push(items.data(), items.size()), 8U);
  EXPECT_EQ(ring.push(items.data(), 1), 0U);
  EXPECT_EQ(ring.in_flight(), 8U);
  EXPECT_EQ(ring.readable(3), 3U);
  EXPECT_EQ(ring.front(), 0U);
  EXPECT_EQ(ring.in_flight(), 8U);  // an item that was only looked at is still in flight
  ring.release();
  EXPECT_EQ(ring.in_flight(), 7U);
  EXPECT_EQ(ring.front(), 1U);
  EXPECT_EQ(ring.push(&items[8], 2), 1U);
  for (std::uint64_t expected = 1; expected <= 8; ++expected) {
    ASSERT_GE(ring.readable(1), 1U);
    EXPECT_EQ(ring.front(), expected);
    ring.release();
  }
  EXPECT_EQ(ring.readable(1), 0U);
  EXPECT_EQ(ring.in_flight(), 0U);
}

TEST(SpscRing, ShowsWhatWasPutOnceItIsPublished) {
  SpscRing<std::uint64_t> ring(4);
  EXPECT_TRUE(ring.put(7));
  EXPECT_TRUE(ring.put(8));
  EXPECT_EQ(ring.readable(4), 0U);
  EXPECT_EQ(ring.in_flight(), 2U);
  EXPECT_EQ(ring.publish(), 2U);
  EXPECT_EQ(ring.publish(), 0U);
  ASSERT_EQ(ring.readable(4), 2U);
  EXPECT_EQ(ring.front(1), 8U);
  EXPECT_TRUE(ring.put(9));
  EXPECT_TRUE(ring.put(10));
  EXPECT_FALSE(ring.put(11));
  EXPECT_EQ(ring.newly_released(), 0U);
  ring.release(2);
  EXPECT_TRUE(ring.put(11));
  EXPECT_EQ(ring.newly_released(), 2U);
  EXPECT_EQ(ring.newly_released(), 0U);
}

TEST(SpscRing, KeepsTheOrderBetweenTwoThreads) {
  constexpr std::uint64_t total = 200'000;
  SpscRing<std::uint64_t> ring(64);
  std::thread producer([&] {
    std::array<std::uint64_t, 17> chunk{};
    std::uint64_t next = 0;
    while (next < total) {
      const std::size_t size = std::min<std::uint64_t>(1 + next % chunk.size(), total - next);
      for (std::size_t i = 0; i < size; ++i) chunk[i] = next + i;
      std::size_t sent = 0;
      while (sent < size) {
        const std::size_t pushed = ring.push(&chunk[sent], size - sent);
        sent += pushed;
        if (pushed == 0) std::this_thread::yield();
      }
      next += size;
    }
  });
  std::uint64_t expected = 0;
  bool in_order = true;
  std::size_t most_waiting = 0;
  while (expected < total) {
    const std::size_t waiting = ring.readable(ring.capacity());
    most_waiting = std::max(most_waiting, waiting);
    for (std::size_t i = 0; i < waiting; ++i) {
      in_order &= ring.front() == expected++;
      ring.release();
    }
    if (waiting == 0) std::this_thread::yield();
  }
  producer.join();
  EXPECT_TRUE(in_order);
  EXPECT_LE(most_waiting, ring.capacity());
  EXPECT_EQ(ring.readable(1), 0U);
}

TEST(Item, CarriesAWholeOperation) {
  for (const auto kind : {Operation::Kind::lookup, Operation::Kind::insert, Operation::Kind::scan,
                          Operation::Kind::update}) {
    const Operation operation{0xfedcba9876543210ULL, 65535, kind};
    const std::uint64_t stamp = (1ULL << 46) - 2;
    const Item item(operation, stamp);
    EXPECT_EQ(item.key(), operation.key);
    EXPECT_EQ(item.scan_length(), operation.scan_length);
    EXPECT_EQ(item.kind(), kind);
    EXPECT_EQ(item.stamp(), stamp);
  }
}

}  // namespace
}  // namespace pmoss::runtime
