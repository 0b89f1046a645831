// Slices that move while they are used. Memory left behind is unmapped at the end of each test, so
// that a link that still leads there would end the process.
#include "index/btree_migration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "numa/affinity.hpp"
#include "numa/memory.hpp"
#include "tests/index/at_places.hpp"
#include "tests/index/scale.hpp"
#include "workload/keyspace.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

using testing::Others;
using testing::run_at_places;
using testing::scaled;

constexpr std::uint32_t slices = 4;
// Not a global: libnuma must have begun before it is asked.
numa::Placement node0() { return numa::Placement::on(numa::memory_nodes().front()); }

void fill(BTree& tree, std::uint64_t records) {
  for (std::uint64_t r = 0; r < records; ++r) tree.insert(key_of_record(r, 1), r);
}

void expect_filled(const BTree& tree, std::uint64_t records) {
  ASSERT_EQ(tree.size(), records);
  std::vector<std::uint64_t> keys(records + 1), values(records + 1);
  ASSERT_EQ(tree.scan(0, keys.size(), keys.data(), values.data()), records);
  for (std::uint64_t i = 1; i < records; ++i) ASSERT_LT(keys[i - 1], keys[i]);
  for (std::uint64_t r = 0; r < records; ++r) {
    std::uint64_t value = 0;
    ASSERT_TRUE(tree.lookup(key_of_record(r, 1), value));
    ASSERT_EQ(value, r);
  }
}

TEST(BTreeMigration, MovesEveryNodeAndLosesNoKey) {
  const std::uint64_t records = scaled(300'000);
  BTree tree({.slices = slices, .huge_pages = false});
  fill(tree, records);
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    const std::size_t nodes = tree.arena(slice).nodes();
    BTreeMigration migration(tree, slice, node0());
    std::size_t steps = 0;
    {
      // Nothing may be freed while a thread could be in it.
      const EpochGuard guard;
      while (migration.step(7)) ++steps;
      EXPECT_EQ(tree.retired().reclaim(), 1U);
    }
    EXPECT_EQ(tree.retired().reclaim(), 0U);
    EXPECT_EQ(migration.nodes_moved(), nodes);
    EXPECT_GE(steps, nodes / 7);
    EXPECT_FALSE(migration.step(1));
    EXPECT_EQ(tree.arena(slice).placement(), node0());
  }
  tree.chunk_pool().trim();
  expect_filled(tree, records);
  fill(tree, 2 * records);
  expect_filled(tree, 2 * records);
}

// Groups of neighbouring leaves end at a step, at a parent and at the end of the slice.
TEST(BTreeMigration, StepsOfAnySizeMoveTheSameNodes) {
  const std::uint64_t records = scaled(200'000);
  BTree tree({.slices = 2, .huge_pages = false});
  fill(tree, records);
  ASSERT_GE(tree.height(0), 2U);
  for (const std::size_t step : {1U, 2U, 31U, 32U, 33U, 100'000U}) {
    for (std::uint32_t slice = 0; slice < 2; ++slice) {
      const std::size_t nodes = tree.arena(slice).nodes();
      {
        BTreeMigration migration(tree, slice, node0());
        while (migration.step(step)) {
        }
        EXPECT_EQ(migration.nodes_moved(), nodes);
      }
      // Memory for copies that was not needed has gone back.
      EXPECT_EQ(tree.arena(slice).nodes(), nodes);
    }
    EXPECT_EQ(tree.retired().reclaim(), 0U);
    tree.chunk_pool().trim();
    expect_filled(tree, records);
  }
}

// What a group has copied without locks must not be published if it has changed since then.
TEST(BTreeMigrationConcurrent, NoUpdateIsLostWhileItsLeafIsCopied) {
  const std::uint64_t records = scaled(40'000);
  const std::uint64_t updates = scaled(500'000);
  BTree tree({.slices = 1, .huge_pages = false});
  fill(tree, records);
  std::atomic<bool> lost{false};
  std::atomic<bool> running{true};
  std::jthread writer([&] {
    Random random(3);
    // Few leaves, so that a group meets their writer again and again.
    std::array<std::uint64_t, 4> written;
    std::iota(written.begin(), written.end(), 0);
    for (std::uint64_t value = 1; value <= updates && !lost.load(); ++value) {
      const std::uint64_t record = random.below(written.size());
      const std::uint64_t key = key_of_record(record, 1);
      std::uint64_t stored = 0;
      if (!tree.lookup(key, stored) || stored != written[record]) lost.store(true);
      if (!tree.update(key, value)) lost.store(true);
      written[record] = value;
    }
    running.store(false);
  });
  while (running.load()) {
    BTreeMigration migration(tree, 0, node0());
    while (migration.step(1000)) {
    }
    tree.retired().reclaim();
  }
  writer.join();
  EXPECT_FALSE(lost.load());
  EXPECT_EQ(tree.scan(0, records + 1, nullptr, nullptr), records);
}

// Splits change the parent of a group, and add leaves between those that were copied.
TEST(BTreeMigrationConcurrent, LeavesThatSplitWhileTheyMoveKeepTheirKeys) {
  const std::uint64_t records = scaled(300'000);
  BTree tree({.slices = 2, .huge_pages = false});
  fill(tree, 1000);
  std::atomic<bool> running{true};
  std::jthread writer([&] {
    for (std::uint64_t r = 1000; r < records; ++r) tree.insert(key_of_record(r, 1), r);
    running.store(false);
  });
  for (std::uint32_t slice = 0; running.load(); slice = 1 - slice) {
    BTreeMigration migration(tree, slice, node0());
    while (migration.step(1000)) {
    }
    tree.retired().reclaim();
    tree.chunk_pool().trim();
  }
  writer.join();
  EXPECT_EQ(tree.retired().reclaim(), 0U);
  tree.chunk_pool().trim();
  expect_filled(tree, records);
}

TEST(BTreeMigration, MovesAnEmptySliceAndALeaf) {
  BTree tree({.slices = slices, .huge_pages = false});
  for (const std::uint64_t keys : {0U, 3U}) {
    for (std::uint64_t key = 0; key < keys; ++key) tree.insert(key, key);
    BTreeMigration migration(tree, 0, node0());
    while (migration.step(1)) {
    }
    EXPECT_EQ(migration.leaves_moved(), 1U);
    EXPECT_EQ(tree.retired().reclaim(), 0U);
    tree.chunk_pool().trim();
    EXPECT_EQ(tree.scan(0, 10, nullptr, nullptr), keys);
  }
}

TEST(BTreeMigration, AnAbandonedMoveIsTakenUpByTheNext) {
  const std::uint64_t records = scaled(100'000);
  BTree tree({.slices = slices, .huge_pages = false});
  fill(tree, records);
  {
    BTreeMigration first(tree, 1, node0());
    EXPECT_THROW(BTreeMigration(tree, 1, node0()), std::logic_error);
    EXPECT_TRUE(first.step(10));
  }
  expect_filled(tree, records);
  BTreeMigration second(tree, 1, numa::Placement{});
  {
    const EpochGuard guard;
    while (second.step(1000)) {
    }
    EXPECT_EQ(tree.retired().reclaim(), 2U);
  }
  EXPECT_EQ(tree.retired().reclaim(), 0U);
  tree.chunk_pool().trim();
  expect_filled(tree, records);
  EXPECT_THROW(BTreeMigration(tree, slices, node0()), std::out_of_range);
}

/// Memory that a test touches first lies on one node only if the thread stays there.
template <class Body>
void on_one_cpu(Body body) {
  std::jthread([&] {
    numa::pin_thread(numa::allowed_cpus().front());
    body();
  }).join();
}

/// The node on which the pages of a slice were touched first.
numa::Placement home_of(const BTree& tree, std::uint32_t slice) {
  const auto* const chunk =
      reinterpret_cast<const void*>(tree.arena(slice).chunks().front().address);
  const numa::ResidentPages pages = numa::resident_pages(chunk, chunk_bytes);
  EXPECT_EQ(pages.on_node.size(), 1U);
  return pages.on_node.empty() ? node0() : numa::Placement::on(pages.on_node.begin()->first);
}

TEST(BTreeMigration, TakesReservedMemoryAndGivesItBack) {
  on_one_cpu([] {
    BTree tree({.slices = slices, .huge_pages = false});
    fill(tree, 1000);
    const numa::Placement home = home_of(tree, 0);
    tree.chunk_pool().reserve(home, 2);
    EXPECT_EQ(tree.chunk_pool().held(), 2U);
    {
      BTreeMigration migration(tree, 0, home);
      while (migration.step(100)) {
      }
      EXPECT_EQ(tree.chunk_pool().held(), 1U);
    }
    EXPECT_EQ(tree.retired().reclaim(), 0U);
    // As many as the slice had are enough.
    EXPECT_EQ(tree.chunk_pool().held(), 1U);
    expect_filled(tree, 1000);
  });
}

TEST(BTreeMigration, MemoryThatNobodyPlacedServesTheNextSlice) {
  on_one_cpu([] {
    BTree tree({.slices = slices, .huge_pages = false});
    fill(tree, 1000);
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      const numa::Placement home = home_of(tree, slice);
      const std::uintptr_t old = tree.arena(slice).chunks().front().address;
      {
        BTreeMigration migration(tree, slice, home);
        while (migration.step(100)) {
        }
      }
      EXPECT_EQ(tree.retired().reclaim(), 0U);
      EXPECT_EQ(tree.chunk_pool().held(), 1U);
      const Chunk kept = tree.chunk_pool().take(home);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kept.get()), old);
      tree.chunk_pool().give_back(Chunk(map_chunk(false)), home, 1);
    }
    expect_filled(tree, 1000);
  });
}

/// Places that differ for the pool; the kernel leaves out nodes that a host does not have.
numa::Placement place(unsigned number) {
  const int node = numa::memory_nodes().front();
  return numa::Placement::interleaved({node, node + 1 + static_cast<int>(number)});
}

TEST(BTreeMigration, AHundredSchedulesOnEightPlacesTakeAMemoryOfOneIndex) {
  constexpr unsigned places = 8;
  constexpr std::uint32_t many = 128;
  BTree tree({.slices = many, .huge_pages = false});
  const std::uint64_t records = scaled(200'000);
  fill(tree, records);
  const auto chunks = [&] {
    std::size_t bytes = 0;
    for (std::uint32_t slice = 0; slice < many; ++slice)
      bytes += tree.arena(slice).bytes_reserved();
    return bytes / chunk_bytes;
  };
  Random random(7);
  std::size_t most_held = 0;
  for (int schedule = 0; schedule < 100; ++schedule) {
    for (std::uint32_t slice = 0; slice < many; ++slice) {
      BTreeMigration migration(tree, slice, place(static_cast<unsigned>(random.below(places))));
      while (migration.step(1000)) {
      }
      tree.retired().reclaim();
    }
    most_held = std::max(most_held, tree.chunk_pool().held());
  }
  EXPECT_LE(static_cast<double>(most_held), 0.1 * static_cast<double>(chunks()));
  EXPECT_GT(most_held, 0U);
  expect_filled(tree, records);
}

TEST(ChunkPool, KeepsNoMoreThanItIsToldAndNothingThatLiesElsewhere) {
  ChunkPool pool(false);
  const int node = numa::memory_nodes().front();
  const auto on_node = numa::Placement::on(node);
  std::vector<Chunk> chunks;
  for (int i = 0; i < 3; ++i) {
    chunks.push_back(pool.take(on_node));
    *chunks.back().get() = std::byte{1};
  }
  for (Chunk& chunk : chunks) pool.give_back(std::move(chunk), on_node, 2);
  EXPECT_EQ(pool.held(), 2U);
  Chunk elsewhere = pool.take(on_node);
  *elsewhere.get() = std::byte{1};
  pool.give_back(std::move(elsewhere), numa::Placement::on(node + 1), 2);
  EXPECT_EQ(pool.held(), 1U);
  int refused = 0;
  EXPECT_NE(pool.take(numa::Placement::on(1000), &refused).get(), nullptr);
  EXPECT_NE(refused, 0);
}

// Writers and readers check what they find, while every slice moves from node to node.
TEST(BTreeMigrationConcurrent, NoKeyIsLostOrSeenTwiceUnderLoad) {
  constexpr unsigned writers = 3;
  BTree tree({.slices = slices, .huge_pages = false});
  const std::uint64_t records = scaled(20'000);
  const std::size_t operations = scaled(120'000);
  std::atomic<const char*> complaint{nullptr};
  std::atomic<unsigned> running{writers};
  std::vector<std::map<std::uint64_t, std::uint64_t>> models(writers);
  std::uint64_t moved = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < writers; ++t) {
      threads.emplace_back([&, t] {
        auto& model = models[t];
        Random random(t);
        std::vector<std::uint64_t> keys(512);
        const auto check = [&](bool holds, const char* what) {
          if (!holds) complaint.store(what);
        };
        for (std::size_t i = 0; i < operations && complaint.load() == nullptr; ++i) {
          const std::uint64_t key = key_of_record(random.below(records) * writers + t, 9);
          const auto expected = model.find(key);
          const bool present = expected != model.end();
          const std::uint64_t kind = random.below(100);
          if (kind < 40) {
            const std::uint64_t value = random.next();
            check(tree.insert(key, value) == !present, "insert disagrees about the key");
            model[key] = value;
          } else if (kind < 50) {
            const std::uint64_t value = random.next();
            check(tree.update(key, value) == present, "update disagrees about the key");
            if (present) expected->second = value;
          } else if (kind < 55) {
            check(tree.erase(key) == present, "erase disagrees about the key");
            model.erase(key);
          } else if (kind < 85) {
            std::uint64_t value = 0;
            check(tree.lookup(key, value) == present, "lookup disagrees about the key");
            if (present) check(value == expected->second, "lookup returns another value");
          } else if (kind < 87) {
            const auto owned = [&] {
              return key_of_record(random.below(records) * writers + t, 9);
            };
            run_at_places(tree, model, random, Others::of_other_threads, owned, check);
          } else if (kind < 95) {
            std::uint64_t batch[16], values[16];
            bool found[16];
            for (auto& k : batch) k = key_of_record(random.below(records) * writers + t, 9);
            tree.lookup_batch(batch, 16, values, found);
            for (int b = 0; b < 16; ++b) {
              const auto at = model.find(batch[b]);
              check(found[b] == (at != model.end()), "a batch disagrees about a key");
              if (found[b]) check(values[b] == at->second, "a batch returns another value");
            }
          } else {
            const std::size_t n = tree.scan(key, 1 + random.below(512), keys.data(), nullptr);
            auto own = model.lower_bound(key);
            for (std::size_t j = 0; j < n; ++j) {
              check(j == 0 || keys[j - 1] < keys[j], "a scan is not ascending");
              // No other thread changes what this one wrote: a scan must find all of it.
              if (own != model.end()) check(keys[j] <= own->first, "a scan has missed a key");
              if (own != model.end() && keys[j] == own->first) ++own;
            }
          }
        }
        --running;
      });
    }
    Random random(77);
    while (running.load() > 0) {
      const auto slice = static_cast<std::uint32_t>(random.below(slices));
      BTreeMigration migration(tree, slice, random.below(2) == 0 ? node0() : numa::Placement{});
      const bool abandon = random.below(4) == 0;
      while (migration.step(16) && !(abandon && random.below(4) == 0)) {
      }
      moved += migration.nodes_moved();
      tree.retired().reclaim();
      tree.chunk_pool().trim();
    }
  }
  ASSERT_EQ(complaint.load(), nullptr) << complaint.load();
  EXPECT_GT(moved, 0U);
  EXPECT_EQ(tree.retired().reclaim(), 0U);
  tree.chunk_pool().trim();
  std::size_t keys = 0;
  for (const auto& model : models) {
    keys += model.size();
    for (const auto& [key, value] : model) {
      std::uint64_t stored = 0;
      ASSERT_TRUE(tree.lookup(key, stored));
      ASSERT_EQ(stored, value);
    }
  }
  EXPECT_EQ(tree.size(), keys);
  EXPECT_EQ(tree.scan(0, keys + 1, nullptr, nullptr), keys);
}

}  // namespace
}  // namespace pmoss
