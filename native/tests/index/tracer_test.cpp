// Tracing changes no result, and the log keeps what a first-level cache would not serve.
#include "index/tracer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "index/btree.hpp"
#include "index/node.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

struct alignas(64) Line {
  std::byte bytes[64];
};

TEST(TouchLog, KeepsTheFirstReadAndTheFirstWriteOfALine) {
  std::vector<Line> lines(4);
  TouchLog log;
  log.add(&lines[0], 128, false, true, false);
  log.add(&lines[1], 8, false, false, false);  // known
  log.add(&lines[1], 8, true, false, true);
  log.add(&lines[1], 8, true, true, false);  // owned
  log.add(&lines[2], 64, true, true, false);
  log.add(&lines[2], 64, false, false, false);  // known
  log.add(&lines[3], 0, true, false, false);    // nothing
  const auto entries = log.entries();
  ASSERT_EQ(entries.size(), 4u);
  const std::uint64_t first = reinterpret_cast<std::uintptr_t>(lines.data()) / 64;
  const std::uint64_t expected[] = {first, first + 1, first + 1, first + 2};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(entries[i].line(), expected[i]);
  EXPECT_TRUE(entries[0].streams() && !entries[0].writes() && !entries[0].locks());
  EXPECT_TRUE(!entries[2].streams() && entries[2].writes() && entries[2].locks());
  EXPECT_TRUE(entries[3].streams() && entries[3].writes() && !entries[3].locks());
  log.clear();
  EXPECT_TRUE(log.entries().empty());
  log.add(&lines[0], 1, false, false, false);
  EXPECT_EQ(log.entries().size(), 1u);
}

TEST(TouchLog, ForgetsWhatLeftTheFirstLevelCacheAndSaysWhenItIsFull) {
  std::vector<Line> lines(2000);
  TouchLog log;
  log.add(lines.data(), lines.size() * 64, false, true, false);
  log.add(&lines[0], 8, false, false, false);
  EXPECT_EQ(log.entries().size(), lines.size() + 1);
  EXPECT_FALSE(log.overflowed());
  for (int i = 0; i < 140; ++i) log.add(lines.data(), lines.size() * 64, false, true, false);
  EXPECT_TRUE(log.overflowed());
  EXPECT_EQ(log.entries().size(), TouchLog::capacity);
  log.clear();
  EXPECT_FALSE(log.overflowed());
}

TEST(TouchLog, OutlivesManyClears) {
  std::vector<Line> lines(3);
  TouchLog log;
  for (int i = 0; i < 100'000; ++i) {
    log.clear();
    log.add(lines.data(), sizeof(Line) * 3, i % 2 == 0, false, false);
    ASSERT_EQ(log.entries().size(), 3u);
  }
}

TEST(TracedBTree, GivesTheResultsOfTheUntracedOne) {
  for (const bool dense : {false, true}) {
    BTree plain({.slices = 5, .huge_pages = false});
    BTree traced({.slices = 5, .huge_pages = false});
    TouchLog log;
    Random random(dense ? 1 : 2);
    std::vector<std::uint64_t> keys(300), values(300), traced_keys(300), traced_values(300);
    for (int i = 0; i < 60'000; ++i) {
      const std::uint64_t key = dense ? random.below(20'000) : mix64(random.below(20'000));
      const std::uint64_t value = random.next();
      log.clear();
      switch (random.below(6)) {
        case 0: {
          std::uint64_t a = 1, b = 1;
          ASSERT_EQ(plain.lookup(key, a), traced.lookup(key, b, log));
          ASSERT_EQ(a, b);
          break;
        }
        case 1:
          ASSERT_EQ(plain.update(key, value), traced.update(key, value, log));
          break;
        case 2:
          ASSERT_EQ(plain.erase(key), traced.erase(key, log));
          break;
        case 3: {
          const std::size_t limit = random.below(300);
          const std::size_t n = plain.scan(key, limit, keys.data(), values.data());
          ASSERT_EQ(traced.scan(key, limit, traced_keys.data(), traced_values.data(), log), n);
          for (std::size_t j = 0; j < n; ++j) {
            ASSERT_EQ(keys[j], traced_keys[j]);
            ASSERT_EQ(values[j], traced_values[j]);
          }
          if (limit == 0) continue;  // touches nothing
          break;
        }
        default:
          ASSERT_EQ(plain.insert(key, value), traced.insert(key, value, log));
      }
      // The root's address comes first.
      const ChunkView table = traced.root_table();
      ASSERT_FALSE(log.entries().empty());
      ASSERT_EQ(log.entries()[0].line(), table.address / 64);
    }
    ASSERT_EQ(plain.size(), traced.size());
    std::vector<std::uint64_t> all(plain.size()), all_traced(plain.size());
    ASSERT_EQ(plain.scan(0, all.size(), all.data(), nullptr), all.size());
    ASSERT_EQ(traced.scan(0, all.size(), all_traced.data(), nullptr), all.size());
    EXPECT_EQ(all, all_traced);
    for (std::uint32_t s = 0; s < 5; ++s) {
      EXPECT_EQ(plain.arena(s).nodes(), traced.arena(s).nodes());
      EXPECT_EQ(plain.height(s), traced.height(s));
    }
  }
}

TEST(TracedBTree, ReportsTheLinesOfALookupInTheirOrder) {
  BTree tree({.slices = 1, .huge_pages = false});
  for (std::uint64_t key = 0; key < 100; ++key) tree.insert(key << 32, key);
  TouchLog log;
  std::uint64_t value = 0;
  ASSERT_TRUE(tree.lookup(std::uint64_t{42} << 32, value, log));
  // The only node is the first thing in the arena.
  const std::uint64_t node = tree.arena(0).chunks().at(0).address / 64;
  const std::uint64_t keys = node + offsetof(index_detail::Node, keys) / 64;
  const std::uint64_t words = node + offsetof(index_detail::Node, words) / 64;
  const std::uint64_t expected[] = {
      tree.root_table().address / 64, node, node + 1, node + 2, words + 42 / 8, keys + 42 / 8};
  ASSERT_EQ(log.entries().size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(log.entries()[i].line(), expected[i]) << i;
    EXPECT_EQ(log.entries()[i].streams(), i >= 2 && i <= 4) << i;
  }
}

}  // namespace
}  // namespace pmoss
