// Loading sorted keys: the same contents as inserting them, nodes as full as random inserts leave
// them, and a tree that takes further inserts.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "index/btree.hpp"
#include "tests/index/scale.hpp"
#include "workload/keyspace.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

constexpr std::uint64_t last_key = std::numeric_limits<std::uint64_t>::max();

BTree make_tree(std::uint32_t slices) { return BTree({.slices = slices, .huge_pages = false}); }

std::vector<std::uint64_t> random_keys(std::size_t n, std::uint64_t seed, std::uint64_t range) {
  Random random(seed);
  std::vector<std::uint64_t> keys(n);
  for (auto& key : keys) key = range == 0 ? random.next() : random.below(range);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

void expect_same(const BTree& tree, const std::map<std::uint64_t, std::uint64_t>& map) {
  ASSERT_EQ(tree.size(), map.size());
  std::uint64_t by_slice = 0;
  for (std::uint32_t s = 0; s < tree.slices(); ++s) by_slice += tree.slice_size(s);
  ASSERT_EQ(by_slice, map.size());
  std::vector<std::uint64_t> keys(map.size() + 1), values(map.size() + 1);
  ASSERT_EQ(tree.scan(0, keys.size(), keys.data(), values.data()), map.size());
  std::size_t i = 0;
  for (const auto& [key, value] : map) {
    ASSERT_EQ(keys[i], key);
    ASSERT_EQ(values[i], value);
    std::uint64_t got = ~value;
    ASSERT_TRUE(tree.lookup(key, got));
    ASSERT_EQ(got, value);
    if (key < last_key && !map.contains(key + 1)) {
      ASSERT_FALSE(tree.lookup(key + 1, got));
    }
    ++i;
  }
}

TEST(BulkLoad, HoldsTheKeysAndTakesFurtherOperations) {
  Random random(7);
  for (int round = 0; round < static_cast<int>(testing::scaled(60)); ++round) {
    const auto n = static_cast<std::size_t>(random.below(round % 4 == 0 ? 100'000 : 3'000));
    const std::uint64_t range = round % 3 == 0 ? n * 2 + 1 : 0;  // close together or spread
    const auto slices = static_cast<std::uint32_t>(1 + random.below(40));
    SCOPED_TRACE(::testing::Message() << "round " << round << ": " << n << " keys of " << range
                                      << ", " << slices << " slices");
    auto keys = random_keys(n, random.next(), range);
    if (round % 5 == 0 && (keys.empty() || keys.back() != last_key)) keys.push_back(last_key);
    std::vector<std::uint64_t> values(keys.size());
    for (auto& value : values) value = random.next();
    BTree tree = make_tree(slices);
    tree.bulk_load(keys, values, random.next());
    std::map<std::uint64_t, std::uint64_t> map;
    for (std::size_t i = 0; i < keys.size(); ++i) map[keys[i]] = values[i];
    ASSERT_NO_FATAL_FAILURE(expect_same(tree, map));

    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t key = range == 0 ? random.next() : random.below(2 * range);
      const std::uint64_t value = random.next();
      switch (random.below(3)) {
        case 0:
          ASSERT_EQ(tree.erase(key), map.erase(key) == 1);
          break;
        default:
          ASSERT_EQ(tree.insert(key, value), map.insert_or_assign(key, value).second);
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_same(tree, map));
  }
}

TEST(BulkLoad, FillsNodesLikeRandomInserts) {
  constexpr std::size_t n = 2'000'000;
  std::vector<std::uint64_t> keys(n);
  BTree inserted = make_tree(4);
  for (std::size_t record = 0; record < n; ++record) {
    keys[record] = key_of_record(record, 3);
    inserted.insert(keys[record], 0);
  }
  std::sort(keys.begin(), keys.end());
  BTree loaded = make_tree(4);
  loaded.bulk_load(keys, keys, 11);
  double loaded_nodes = 0.0, inserted_nodes = 0.0;
  for (std::uint32_t s = 0; s < 4; ++s) {
    loaded_nodes += static_cast<double>(loaded.arena(s).nodes());
    inserted_nodes += static_cast<double>(inserted.arena(s).nodes());
    EXPECT_EQ(loaded.height(s), inserted.height(s));
  }
  // About 11,300 leaves, whose fill varies by 0.14 each: 0.2 % of the mean.
  EXPECT_NEAR(static_cast<double>(n) / (loaded_nodes * 255.0), 0.6931, 0.01);
  EXPECT_NEAR(loaded_nodes / inserted_nodes, 1.0, 0.02);
}

TEST(BulkLoad, IsDeterminedBySeed) {
  const auto keys = random_keys(50'000, 4, 0);
  const auto nodes = [&](std::uint64_t seed) {
    BTree tree = make_tree(16);
    tree.bulk_load(keys, keys, seed);
    std::vector<std::size_t> result;
    for (std::uint32_t s = 0; s < 16; ++s) result.push_back(tree.arena(s).nodes());
    return result;
  };
  EXPECT_EQ(nodes(1), nodes(1));
  EXPECT_NE(nodes(1), nodes(2));
}

TEST(BulkLoad, LoadsPartsAsItLoadsTheWhole) {
  const auto keys = random_keys(30'000, 5, 0);
  BTree whole = make_tree(7), parts = make_tree(7);
  whole.bulk_load(keys, keys, 3);
  std::vector<std::thread> loaders;
  for (const std::uint32_t first : {0U, 3U, 6U}) {
    loaders.emplace_back([&, first] {
      const std::uint32_t last = std::min(first + 3, 7U);
      std::vector<std::uint64_t> own;
      for (const std::uint64_t key : keys) {
        const std::uint32_t slice = slice_of_key(key, 7);
        if (slice >= first && slice < last) own.push_back(key);
      }
      parts.bulk_load(first, last, own, own, 3);
    });
  }
  for (std::thread& loader : loaders) loader.join();
  for (std::uint32_t s = 0; s < 7; ++s) {
    EXPECT_EQ(parts.arena(s).nodes(), whole.arena(s).nodes());
    EXPECT_EQ(parts.slice_size(s), whole.slice_size(s));
    EXPECT_FALSE(parts.is_new(s));
  }
  std::vector<std::uint64_t> scanned(keys.size() + 1);
  ASSERT_EQ(parts.scan(0, scanned.size(), scanned.data(), nullptr), keys.size());
  scanned.pop_back();
  EXPECT_EQ(scanned, keys);
}

#if !defined(PMOSS_SANITIZED)
/// Runs in a process of its own: memory runs out in the middle of a slice, and comes back.
[[noreturn]] void load_with_too_little_memory() {
  BTree tree = make_tree(2);
  const std::vector<std::uint64_t> high = random_keys(1'000, 2, 0);
  for (const std::uint64_t key : high) tree.insert(key | std::uint64_t{1} << 63, 1);
  const std::uint64_t others = tree.size();
  const std::vector<std::uint64_t> keys = random_keys(500'000, 1, last_key / 2);
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limits{};
  if (::getrlimit(RLIMIT_AS, &limits) != 0) std::exit(2);
  const rlim_t before = limits.rlim_cur;
  limits.rlim_cur = pages * 4096 + (rlim_t{7} << 20);
  if (::setrlimit(RLIMIT_AS, &limits) != 0) std::exit(2);
  bool failed = false;
  try {
    tree.bulk_load(0, 1, keys, keys, 0);
  } catch (const std::bad_alloc&) {
    failed = true;
  }
  if (!failed) std::exit(3);
  limits.rlim_cur = before;
  if (::setrlimit(RLIMIT_AS, &limits) != 0) std::exit(2);
  std::uint64_t value = 0;
  if (!tree.is_new(0) || tree.lookup(keys.front(), value)) std::exit(4);
  if (tree.scan(0, others + 1, nullptr, nullptr) != others) std::exit(5);
  tree.bulk_load(0, 1, keys, keys, 0);
  const std::size_t all = keys.size() + others;
  if (tree.size() != all || tree.scan(0, all + 1, nullptr, nullptr) != all) std::exit(6);
  for (const std::uint64_t key : keys) {
    if (!tree.lookup(key, value) || value != key) std::exit(7);
  }
  std::exit(0);
}

TEST(BulkLoadDeathTest, ASliceThatFoundNoMemoryIsNewAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(load_with_too_little_memory(), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(BulkLoad, RefusesWhatItCannotLoad) {
  const auto load = [](BTree& tree, std::vector<std::uint64_t> keys, std::size_t values) {
    tree.bulk_load(keys, std::vector<std::uint64_t>(values), 0);
  };
  BTree tree = make_tree(2);
  EXPECT_THROW(load(tree, {1, 3, 2}, 3), std::invalid_argument);
  EXPECT_THROW(load(tree, {1, 2, 2}, 3), std::invalid_argument);
  EXPECT_THROW(load(tree, {1, 2, 3}, 2), std::invalid_argument);
  EXPECT_EQ(tree.size(), 0u);
  const std::vector<std::uint64_t> low{1}, high{last_key};
  EXPECT_THROW(tree.bulk_load(1, 2, low, low, 0), std::invalid_argument);
  EXPECT_THROW(tree.bulk_load(0, 1, high, high, 0), std::invalid_argument);
  EXPECT_THROW(tree.bulk_load(1, 3, high, high, 0), std::invalid_argument);
  EXPECT_THROW(tree.bulk_load(2, 1, {}, {}, 0), std::invalid_argument);
  EXPECT_TRUE(tree.is_new(0) && tree.is_new(1));
  load(tree, {}, 0);
  load(tree, {1, 2, 3}, 3);
  EXPECT_EQ(tree.size(), 3u);
  EXPECT_THROW(load(tree, {4, 5}, 2), std::logic_error);
  for (const std::uint64_t key : {1u, 2u, 3u}) tree.erase(key);
  tree.insert(last_key, 1);
  EXPECT_THROW(load(tree, {4, 5}, 2), std::logic_error);
}

}  // namespace
}  // namespace pmoss
