// The tree against std::map by one thread: every operation, every instruction set, hard key sets.
#include "index/btree.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/index/at_places.hpp"
#include "tests/index/scale.hpp"
#include "workload/keyspace.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

using testing::Others;
using testing::run_at_places;
using testing::scaled;
using testing::slow;
using Map = std::map<std::uint64_t, std::uint64_t>;

constexpr std::uint64_t last_key = std::numeric_limits<std::uint64_t>::max();

BTree::Options small_pages(std::uint32_t slices) { return {.slices = slices, .huge_pages = false}; }

/// Lets a test run with another search and puts the old one back.
class UseIsa {
 public:
  explicit UseIsa(Isa isa) : before_(search_isa()) { set_search_isa(isa); }
  ~UseIsa() { set_search_isa(before_); }
  UseIsa(const UseIsa&) = delete;
  UseIsa& operator=(const UseIsa&) = delete;

 private:
  Isa before_;
};

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa_supported(isa)) isas.push_back(isa);
  }
  return isas;
}

void expect_scan(const BTree& tree, const Map& map, std::uint64_t first, std::size_t limit) {
  std::vector<std::uint64_t> keys(limit + 1, 77), values(limit + 1, 77);
  const std::size_t n = tree.scan(first, limit, keys.data(), values.data());
  ASSERT_LE(n, limit);
  auto expected = map.lower_bound(first);
  for (std::size_t i = 0; i < n; ++i, ++expected) {
    ASSERT_NE(expected, map.end());
    ASSERT_EQ(keys[i], expected->first);
    ASSERT_EQ(values[i], expected->second);
  }
  if (n < limit) {
    ASSERT_EQ(expected, map.end());
  }
  ASSERT_EQ(keys[limit], 77u);
  ASSERT_EQ(values[limit], 77u);
}

void expect_same(const BTree& tree, const Map& map) {
  ASSERT_EQ(tree.size(), map.size());
  expect_scan(tree, map, 0, map.size() + 10);
  std::vector<std::uint64_t> keys;
  for (const auto& [key, value] : map) {
    std::uint64_t got = value + 1;
    ASSERT_TRUE(tree.lookup(key, got)) << key;
    ASSERT_EQ(got, value);
    keys.push_back(key);
    keys.push_back(key + 1);  // often absent
  }
  std::vector<std::uint64_t> values(keys.size());
  const auto found = std::make_unique<bool[]>(keys.size());
  const std::size_t hits = tree.lookup_batch(keys.data(), keys.size(), values.data(), found.get());
  std::size_t expected_hits = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto expected = map.find(keys[i]);
    ASSERT_EQ(found[i], expected != map.end());
    if (!found[i]) continue;
    ++expected_hits;
    ASSERT_EQ(values[i], expected->second);
  }
  ASSERT_EQ(hits, expected_hits);
}

TEST(BTree, EmptyTreeFindsNothing) {
  for (const std::uint32_t slices : {1u, 3u, 256u}) {
    BTree tree(small_pages(slices));
    EXPECT_EQ(tree.size(), 0u);
    EXPECT_EQ(tree.slices(), slices);
    std::uint64_t value = 5, key = 6;
    for (const std::uint64_t absent : {std::uint64_t{0}, std::uint64_t{1} << 63, last_key}) {
      EXPECT_FALSE(tree.lookup(absent, value));
      EXPECT_FALSE(tree.update(absent, 1));
      EXPECT_FALSE(tree.erase(absent));
      EXPECT_EQ(tree.scan(absent, 1, &key, &value), 0u);
      bool found = true;
      EXPECT_EQ(tree.lookup_batch(&absent, 1, &value, &found), 0u);
      EXPECT_FALSE(found);
    }
    EXPECT_EQ(value, 5u);
    EXPECT_EQ(key, 6u);
    EXPECT_EQ(tree.lookup_batch(nullptr, 0, nullptr, nullptr), 0u);
  }
}

TEST(BTree, RefusesWrongNumbersOfSlices) {
  EXPECT_THROW(BTree(small_pages(0)), std::invalid_argument);
  EXPECT_THROW(BTree(small_pages(BTree::max_slices + 1)), std::invalid_argument);
  EXPECT_THROW(BTree(small_pages(4)).arena(4), std::out_of_range);
}

TEST(BTree, AWrongNumberOfSlicesCostsNoMemory) {
  const auto peak_kib = [] {
    rusage usage{};
    EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
  };
  const long before = peak_kib();
  try {
    const BTree tree(small_pages(100'000'000));  // 800 MB of roots alone
    ADD_FAILURE() << "not refused";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "slices is 100000000; it must lie in 1 .. 65536");
  }
  EXPECT_LT(peak_kib() - before, 100'000);
}

TEST(BTree, KeysOfTheFullRangeSurviveExactly) {
  const std::uint64_t beyond_double = (std::uint64_t{1} << 53) + 1;
  const std::vector<std::uint64_t> keys = {0,
                                           1,
                                           2,
                                           beyond_double - 1,
                                           beyond_double,
                                           beyond_double + 1,
                                           9'200'000'000'000'000'001,
                                           9'200'000'000'000'000'003,
                                           std::uint64_t{1} << 63,
                                           (std::uint64_t{1} << 63) - 1,
                                           last_key - 2,
                                           last_key - 1,
                                           last_key};
  for (const Isa isa : supported_isas()) {
    const UseIsa use(isa);
    for (const std::uint32_t slices : {1u, 256u}) {
      BTree tree(small_pages(slices));
      Map map;
      for (const std::uint64_t key : keys) {
        std::uint64_t value;
        EXPECT_FALSE(tree.lookup(key, value));
        EXPECT_TRUE(tree.insert(key, ~key));
        map[key] = ~key;
        expect_same(tree, map);
      }
      for (const std::uint64_t key : keys) expect_scan(tree, map, key, 3);
      for (const std::uint64_t key : keys) {
        EXPECT_TRUE(tree.erase(key));
        map.erase(key);
        expect_same(tree, map);
      }
    }
  }
}

/// Key sets that are hard in different ways: for the samples of a node, for splits, for slices.
struct KeySet {
  const char* name;
  std::function<std::uint64_t(Random&)> draw;
};

std::vector<KeySet> key_sets() {
  return {
      {"uniform", [](Random& r) { return r.next(); }},
      {"few", [](Random& r) { return key_of_record(r.below(300), 4); }},
      {"dense", [](Random& r) { return r.below(20'000); }},
      {"dense at the end", [](Random& r) { return last_key - r.below(20'000); }},
      {"dense runs far apart", [](Random& r) { return mix64(r.below(20)) + r.below(1000); }},
      {"outliers", [](Random& r) { return r.below(100) == 0 ? r.next() : 1000 + r.below(5000); }},
      {"every magnitude", [](Random& r) { return r.next() >> r.below(64); }},
      {"slice boundaries",
       [](Random& r) {
         return first_key_of_slice(static_cast<std::uint32_t>(r.below(7)), 7) + r.below(600) - 300;
       }},
  };
}

TEST(BTree, RandomOperationsMatchStdMap) {
  for (const auto& set : key_sets()) {
    SCOPED_TRACE(set.name);
    for (const std::uint32_t slices : {1u, 7u, 256u}) {
      SCOPED_TRACE(slices);
      for (const Isa isa : supported_isas()) {
        const UseIsa use(isa);
        BTree tree(small_pages(slices));
        Map map;
        Random random(slices);
        for (std::size_t i = 0; i < scaled(60'000); ++i) {
          const std::uint64_t key = set.draw(random);
          const std::uint64_t value = random.next();
          const std::uint64_t kind = random.below(100);
          // Phases of growth and of decline.
          const std::uint64_t inserts = (i / scaled(20'000)) % 2 == 0 ? 70 : 20;
          if (kind < inserts) {
            ASSERT_EQ(tree.insert(key, value), map.insert_or_assign(key, value).second);
          } else if (kind < 80) {
            ASSERT_EQ(tree.erase(key), map.erase(key) == 1);
          } else if (kind < 88) {
            const auto expected = map.find(key);
            ASSERT_EQ(tree.update(key, value), expected != map.end());
            if (expected != map.end()) expected->second = value;
          } else if (kind < 98) {
            const auto expected = map.find(key);
            std::uint64_t got = value;
            ASSERT_EQ(tree.lookup(key, got), expected != map.end());
            ASSERT_EQ(got, expected != map.end() ? expected->second : value);
          } else {
            expect_scan(tree, map, key, random.below(600));
          }
          if (HasFatalFailure()) return;
        }
        expect_same(tree, map);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(BTree, AscendingAndDescendingInsertsMatchStdMap) {
  for (const bool ascending : {true, false}) {
    for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{1} << 40}) {
      BTree tree(small_pages(3));
      Map map;
      const std::size_t n = scaled(200'000);
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t key = step * (ascending ? i : n - i);
        ASSERT_TRUE(tree.insert(key, i));
        map[key] = i;
      }
      expect_same(tree, map);
      if (!ascending) continue;
      std::size_t bytes = 0;
      for (std::uint32_t s = 0; s < tree.slices(); ++s) bytes += tree.arena(s).bytes_used();
      EXPECT_LT(static_cast<double>(bytes) / static_cast<double>(n), slow() ? 19.0 : 17.5)
          << "leaves filled in ascending order should be full";
    }
  }
}

TEST(BTree, BatchesInsertLikeSingleInserts) {
  BTree tree(small_pages(7));
  Map map;
  Random random(3);
  for (const std::size_t n : {0u, 1u, 63u, 64u, 65u, 5000u}) {
    std::vector<std::uint64_t> keys(n), values(n);
    std::size_t fresh = 0;
    for (std::size_t i = 0; i < n; ++i) {
      keys[i] = key_of_record(random.below(3000), 0);  // some of them twice in a batch
      values[i] = random.next();
      fresh += map.insert_or_assign(keys[i], values[i]).second ? 1 : 0;
    }
    ASSERT_EQ(tree.insert_batch(keys.data(), values.data(), n), fresh);
    expect_same(tree, map);
  }
}

TEST(BTree, BatchesAtPlacesMatchStdMap) {
  for (const auto& set : key_sets()) {
    SCOPED_TRACE(set.name);
    for (const std::uint32_t slices : {1u, 7u}) {
      for (const Isa isa : supported_isas()) {
        const UseIsa use(isa);
        BTree tree(small_pages(slices));
        Map map;
        Random random(slices);
        for (std::size_t i = 0; i < scaled(1000); ++i) {
          run_at_places(
              tree, map, random, Others::none, [&] { return set.draw(random); },
              [](bool holds, const char* what) { ASSERT_TRUE(holds) << what; });
          if (HasFatalFailure()) return;
        }
        expect_same(tree, map);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(BTree, APlaceOutOfDateIsNotUsed) {
  // Of a tree of one full leaf, which the first insert splits.
  constexpr std::uint64_t full = index_detail::leaf_capacity;
  BTree tree(small_pages(1));
  for (std::uint64_t i = 0; i < full; ++i) tree.insert(10 * i, i);
  std::uint64_t keys[4] = {10 * (full - 1), 5, 15, 25}, values[4];
  bool found[4];
  BTree::Place places[4];
  const EpochGuard guard;
  ASSERT_EQ(tree.lookup_batch(guard, keys, 4, values, found, places), 1u);
  EXPECT_TRUE(tree.insert(guard, places[1], keys[1], 50));
  EXPECT_EQ(tree.height(0), 2u);
  EXPECT_TRUE(tree.update(guard, places[0], keys[0], 60));  // in the right leaf now
  EXPECT_TRUE(tree.insert(guard, places[2], keys[2], 70));
  EXPECT_FALSE(tree.update(guard, places[3], keys[3], 80));
  EXPECT_EQ(tree.scan(guard, places[2], keys[2], 2, keys, values), 2u);
  EXPECT_EQ(keys[0], 15u);
  EXPECT_EQ(values[0], 70u);
  EXPECT_EQ(keys[1], 20u);
  std::uint64_t value = 0;
  EXPECT_TRUE(tree.lookup(10 * (full - 1), value));
  EXPECT_EQ(value, 60u);
  EXPECT_EQ(tree.size(), full + 2);
}

TEST(BTree, ThreeLevelsGrow) {
  // One slice and enough keys that inner nodes split too: 255 x 128 keys fill the first of them.
  const std::size_t n = slow() ? 60'000 : 400'000;
  BTree tree(small_pages(1));
  Map map;
  for (std::uint64_t record = 0; record < n; ++record) {
    const std::uint64_t key = key_of_record(record, 0);
    ASSERT_TRUE(tree.insert(key, record));
    map[key] = record;
  }
  expect_same(tree, map);
}

TEST(BTree, ScanTakesKeysOrValuesAlone) {
  BTree tree(small_pages(4));
  for (std::uint64_t record = 0; record < 2000; ++record) {
    tree.insert(key_of_record(record, 0), record);
  }
  std::vector<std::uint64_t> keys(2000), values(2000), alone(2000);
  ASSERT_EQ(tree.scan(0, 2000, keys.data(), values.data()), 2000u);
  ASSERT_EQ(tree.scan(0, 2000, alone.data(), nullptr), 2000u);
  EXPECT_EQ(alone, keys);
  ASSERT_EQ(tree.scan(0, 2000, nullptr, alone.data()), 2000u);
  EXPECT_EQ(alone, values);
  EXPECT_EQ(tree.scan(0, 2000, nullptr, nullptr), 2000u);
  EXPECT_EQ(tree.scan(0, 0, nullptr, nullptr), 0u);
}

TEST(BTree, ScanPassesEmptyLeavesAndSlices) {
  BTree tree(small_pages(64));
  tree.insert(5, 50);
  tree.insert(last_key, 70);
  std::uint64_t keys[3], values[3];
  ASSERT_EQ(tree.scan(0, 3, keys, values), 2u);
  EXPECT_EQ(keys[1], last_key);
  EXPECT_EQ(values[1], 70u);
  ASSERT_TRUE(tree.erase(5));
  ASSERT_EQ(tree.scan(0, 3, keys, values), 1u);
  EXPECT_EQ(keys[0], last_key);
}

TEST(BTree, AllInstructionSetsFindTheSamePositions) {
  // The tree itself works whatever the search returns among equal keys; the searches must agree
  // more closely, on any content of a node.
  using index_detail::kernels;
  using index_detail::leaf_capacity;
  using index_detail::Untraced;
  Random random(8);
  for (const auto& set : key_sets()) {
    for (int trial = 0; trial < 40; ++trial) {
      const auto node = std::make_unique<index_detail::Node>();
      node->initialise(0, Untraced{});
      std::set<std::uint64_t> keys;
      for (std::uint64_t i = random.below(leaf_capacity + 1); i > 0; --i) {
        keys.insert(set.draw(random));
      }
      for (const std::uint64_t key : keys) node->insert_at(node->count, key, 0, Untraced{});
      for (int probe = 0; probe < 300; ++probe) {
        std::uint64_t key = set.draw(random);
        if (probe % 3 == 0 && !keys.empty()) {
          key = node->keys[random.below(keys.size())] + random.below(3) - 1;
        }
        const auto expected = static_cast<unsigned>(
            std::lower_bound(node->keys, node->keys + node->count, key) - node->keys);
        for (const Isa isa : supported_isas()) {
          const UseIsa use(isa);
          ASSERT_EQ(kernels().lower_bound(*node, key, Untraced{}), expected)
              << set.name << " " << key;
        }
      }
    }
  }
}

TEST(SearchIsa, RefusesWhatTheProcessorLacks) {
  EXPECT_TRUE(isa_supported(Isa::scalar));
  EXPECT_TRUE(isa_supported(best_isa()));
  EXPECT_FALSE(isa_supported(static_cast<Isa>(9)));
  EXPECT_THROW(set_search_isa(static_cast<Isa>(9)), std::invalid_argument);
}

TEST(SliceArena, HandsOutAlignedMemoryOfWholeChunks) {
  for (const bool huge_pages : {false, true}) {
    SliceArena arena(huge_pages);
    EXPECT_TRUE(arena.chunks().empty());
    EXPECT_EQ(arena.bytes_used(), 0u);
    std::uintptr_t end = 0;
    for (int i = 0; i < 1500; ++i) {
      auto* const memory = static_cast<unsigned char*>(arena.allocate(4288));
      const auto address = reinterpret_cast<std::uintptr_t>(memory);
      ASSERT_EQ(address % SliceArena::alignment, 0u);
      ASSERT_NE(address, end - 4288);
      ASSERT_EQ(memory[0], 0);
      ASSERT_EQ(memory[4287], 0);
      memory[0] = memory[4287] = 1;
      end = address + 4288;
      const auto chunks = arena.chunks();
      ASSERT_TRUE(std::any_of(chunks.begin(), chunks.end(), [&](const ChunkView& chunk) {
        return address >= chunk.address && end <= chunk.address + chunk.bytes;
      }));
    }
    EXPECT_EQ(arena.nodes(), 1500u);
    EXPECT_EQ(arena.bytes_used(), 1500u * 4288);
    EXPECT_EQ(arena.bytes_reserved(), 4 * SliceArena::chunk_bytes);  // 489 nodes in each
    for (const auto& chunk : arena.chunks()) {
      EXPECT_EQ(chunk.address % SliceArena::chunk_bytes, 0u);
      EXPECT_EQ(chunk.bytes, SliceArena::chunk_bytes);
    }
    EXPECT_THROW(arena.allocate(SliceArena::chunk_bytes + 1), std::bad_alloc);
  }
}

TEST(BTree, NoTwoSlicesShareAChunk) {
  for (const std::uint32_t slices : {1u, 5u, 256u}) {
    BTree tree(small_pages(slices));
    const std::size_t n = scaled(500'000);
    for (std::uint64_t record = 0; record < n; ++record) {
      tree.insert(key_of_record(record, 0), record);
    }
    std::map<std::uintptr_t, std::uint32_t> owner;
    std::size_t nodes = 0;
    std::uint64_t keys = 0;
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      const SliceArena& arena = tree.arena(slice);
      EXPECT_FALSE(arena.chunks().empty());
      for (const auto& chunk : arena.chunks()) {
        EXPECT_EQ(chunk.address % SliceArena::chunk_bytes, 0u);
        EXPECT_TRUE(owner.emplace(chunk.address, slice).second);
      }
      EXPECT_EQ(arena.bytes_used(), arena.nodes() * sizeof(index_detail::Node));
      nodes += arena.nodes();
      keys += tree.slice_size(slice);
    }
    EXPECT_EQ(keys, tree.size());
    EXPECT_GE(nodes * index_detail::leaf_capacity, n);
  }
}

TEST(BTree, LeavesStayWithinTheirSlice) {
  // What a slice's memory holds is what a migration moves: exactly the slice's keys.
  constexpr std::uint32_t slices = 16;
  BTree tree(small_pages(slices));
  const std::size_t n = scaled(100'000);
  for (std::uint64_t record = 0; record < n; ++record) {
    tree.insert(key_of_record(record, 0), record);
  }
  std::vector<std::uint64_t> expected(slices);
  for (std::uint64_t record = 0; record < n; ++record) {
    ++expected[slice_of_key(key_of_record(record, 0), slices)];
  }
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    EXPECT_EQ(tree.slice_size(slice), expected[slice]);
    std::uint64_t in_leaves = 0;
    std::size_t left = tree.arena(slice).nodes();
    for (const auto& chunk : tree.arena(slice).chunks()) {
      const auto* node = reinterpret_cast<const index_detail::Node*>(chunk.address);
      const std::size_t fit = chunk.bytes / sizeof(index_detail::Node);
      for (std::size_t i = 0; i < fit && left > 0; ++i, --left) {
        if (node[i].level > 0) continue;
        for (unsigned k = 0; k < node[i].count; ++k) {
          ASSERT_EQ(slice_of_key(node[i].keys[k], slices), slice);
        }
        in_leaves += node[i].count;
      }
    }
    EXPECT_EQ(in_leaves, expected[slice]);
  }
}

TEST(BTree, ManySlicesCostLittle) {
  BTree tree(small_pages(slow() ? 4096 : BTree::max_slices));
  Map map;
  for (std::uint64_t record = 0; record < 2000; ++record) {
    tree.insert(key_of_record(record, 0), record);
    map[key_of_record(record, 0)] = record;
  }
  expect_same(tree, map);
}

#if !defined(PMOSS_SANITIZED)
/// Runs in a process of its own: fills a tree until memory runs out, then checks what is there.
[[noreturn]] void fill_until_no_memory() {
  BTree tree(small_pages(2));
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = pages * 4096 + (rlim_t{24} << 20);
  const rlimit limits{limit, limit};
  if (::setrlimit(RLIMIT_AS, &limits) != 0) std::exit(2);
  for (int round = 0; round < 3; ++round) {
    std::uint64_t record = 0;
    try {
      for (;; ++record) tree.insert(key_of_record(record, 0), record);
    } catch (const std::bad_alloc&) {
    }
    const std::uint64_t size = tree.size();
    if (size < 100'000) std::exit(3);
    for (std::uint64_t r = 0; r < record; ++r) {
      std::uint64_t value = 0;
      if (!tree.lookup(key_of_record(r, 0), value) || value != r) std::exit(4);
    }
    if (tree.scan(0, size + 1, nullptr, nullptr) != size) std::exit(5);
    // The locks are free again, too.
    if (!tree.update(key_of_record(0, 0), 1) || !tree.erase(key_of_record(0, 0))) std::exit(6);
  }
  std::exit(0);
}

TEST(BTreeDeathTest, RunningOutOfMemoryLeavesTheTreeValid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fill_until_no_memory(), ::testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace pmoss
