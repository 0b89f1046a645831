// Many threads at once on one tree, against std::map and against what no order could explain.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "index/btree.hpp"
#include "tests/index/at_places.hpp"
#include "tests/index/scale.hpp"
#include "workload/keyspace.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

using testing::Others;
using testing::run_at_places;
using testing::scaled;
using Map = std::map<std::uint64_t, std::uint64_t>;

constexpr unsigned thread_count = 4;

/// Collects complaints, since only the main thread may fail a test, and stops the others.
class Verdict {
 public:
  bool check(bool holds, const char* what) {
    const char* none = nullptr;
    if (!holds) first_.compare_exchange_strong(none, what);
    return holds;
  }
  bool spoiled() const { return first_.load() != nullptr; }
  void report() const {
    if (spoiled()) FAIL() << first_.load();
  }

 private:
  std::atomic<const char*> first_{nullptr};
};

void run_threads(unsigned n, const std::function<void(unsigned)>& body) {
  std::atomic<unsigned> waiting{n};
  std::vector<std::jthread> threads;  // joins before what the threads wait for goes
  for (unsigned t = 0; t < n; ++t) {
    threads.emplace_back([&, t] {
      // All start together, or the first would be done before the last begins.
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      body(t);
    });
  }
}

Map content_of(const BTree& tree) {
  std::vector<std::uint64_t> keys(tree.size() + 1), values(tree.size() + 1);
  const std::size_t n = tree.scan(0, keys.size(), keys.data(), values.data());
  Map map;
  for (std::size_t i = 0; i < n; ++i) map[keys[i]] = values[i];
  EXPECT_EQ(map.size(), n) << "a key came twice";
  EXPECT_EQ(n, tree.size());
  return map;
}

struct Shape {
  std::string name;
  std::uint32_t slices;
  std::function<std::uint64_t(std::uint64_t record)> key;  // distinct keys for distinct records
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

class BTreeConcurrent : public ::testing::TestWithParam<Shape> {};

/// Each thread writes records of its own, so it can check what it reads. Neighbours in every leaf
/// belong to other threads, which insert, split and erase there.
TEST_P(BTreeConcurrent, EachThreadSeesItsOwnWrites) {
  const std::uint32_t slices = GetParam().slices;
  const auto key_of = GetParam().key;
  BTree tree({.slices = slices, .huge_pages = false});
  std::vector<Map> models(thread_count);
  const std::uint64_t records = scaled(20'000);
  Verdict verdict;
  run_threads(thread_count, [&](unsigned t) {
    Map& model = models[t];
    Random random(t);
    std::vector<std::uint64_t> keys(256), values(256);
    const auto owned = [&] { return key_of(random.below(records) * thread_count + t); };
    for (std::size_t i = 0; i < scaled(150'000) && !verdict.spoiled(); ++i) {
      const std::uint64_t key = owned();
      const std::uint64_t kind = random.below(100);
      const auto expected = model.find(key);
      const bool present = expected != model.end();
      if (kind < 40) {
        const std::uint64_t value = random.next();
        verdict.check(tree.insert(key, value) == !present, "insert disagrees about the key");
        model[key] = value;
      } else if (kind < 55) {
        verdict.check(tree.erase(key) == present, "erase disagrees about the key");
        model.erase(key);
      } else if (kind < 65) {
        const std::uint64_t value = random.next();
        verdict.check(tree.update(key, value) == present, "update disagrees about the key");
        if (present) expected->second = value;
      } else if (kind < 90) {
        std::uint64_t value = 0;
        verdict.check(tree.lookup(key, value) == present, "lookup disagrees about the key");
        if (present) verdict.check(value == expected->second, "lookup returns another value");
      } else if (kind < 91) {
        run_at_places(tree, model, random, Others::of_other_threads, owned,
                      [&](bool holds, const char* what) { verdict.check(holds, what); });
      } else if (kind < 95) {
        const std::size_t limit = 1 + random.below(keys.size());
        const std::size_t n = tree.scan(key, limit, keys.data(), values.data());
        verdict.check(n <= limit, "scan returns too much");
        for (std::size_t j = 0; j < n; ++j) {
          verdict.check(keys[j] >= (j > 0 ? keys[j - 1] + 1 : key), "scan is not ascending");
        }
        // Among what the scan returned, the own keys must be exactly the model's.
        auto next = model.lower_bound(key);
        std::size_t j = 0;
        for (; next != model.end(); ++next) {
          while (j < n && keys[j] < next->first) ++j;
          if (j == n) {
            verdict.check(n == limit, "scan stops before a key that is there");
            break;
          }
          verdict.check(keys[j] == next->first, "scan misses a key");
          verdict.check(values[j] == next->second, "scan returns another value");
        }
      } else {
        std::uint64_t wanted[70];
        std::uint64_t got[70];
        bool found[70];
        for (auto& w : wanted) w = owned();
        tree.lookup_batch(wanted, 70, got, found);
        for (std::size_t j = 0; j < 70; ++j) {
          const auto own = model.find(wanted[j]);
          verdict.check(found[j] == (own != model.end()), "a batch disagrees about the key");
          if (found[j]) verdict.check(got[j] == own->second, "a batch returns another value");
        }
      }
    }
  });
  verdict.report();
  Map expected;
  for (const auto& model : models) expected.insert(model.begin(), model.end());
  EXPECT_EQ(content_of(tree), expected);
}

/// All threads write the same records. A value names its thread, its time and its record, so that a
/// wrong one is recognised. In the end each record holds some thread's last write.
TEST_P(BTreeConcurrent, SharedKeysHoldALastWrite) {
  const std::uint32_t slices = GetParam().slices;
  const auto key_of = GetParam().key;
  BTree tree({.slices = slices, .huge_pages = false});
  const std::uint64_t records = scaled(30'000);
  const auto value_of = [](std::uint64_t record, unsigned thread, std::uint64_t time) {
    return record << 40 | static_cast<std::uint64_t>(thread) << 32 | time;
  };
  // Every third record is there from the start and is never erased: it must always be found.
  std::map<std::uint64_t, std::uint64_t> record_of;
  for (std::uint64_t record = 0; record < records; ++record) {
    record_of[key_of(record)] = record;
    if (record % 3 == 0) tree.insert(key_of(record), value_of(record, 255, 0));
  }
  const std::uint64_t loaded = tree.size();
  std::vector<Map> last(thread_count);
  std::atomic<std::uint64_t> fresh{0};
  Verdict verdict;
  run_threads(thread_count, [&](unsigned t) {
    Random random(100 + t);
    std::vector<std::uint64_t> keys(200), values(200);
    for (std::uint64_t i = 1; i < scaled(150'000) && !verdict.spoiled(); ++i) {
      const std::uint64_t record = random.below(records);
      const std::uint64_t key = key_of(record);
      const std::uint64_t kind = random.below(100);
      if (kind < 50) {
        if (tree.insert(key, value_of(record, t, i))) ++fresh;
        last[t][key] = value_of(record, t, i);
      } else if (kind < 60) {
        const bool done = tree.update(key, value_of(record, t, i));
        if (done) last[t][key] = value_of(record, t, i);
        verdict.check(done || record % 3 != 0, "update misses a key that is there");
      } else if (kind < 90) {
        std::uint64_t value = 0;
        const bool found = tree.lookup(key, value);
        verdict.check(found || record % 3 != 0, "lookup misses a key that is there");
        if (found) verdict.check(value >> 40 == record, "lookup returns another record's value");
      } else {
        const std::size_t n = tree.scan(key, keys.size(), keys.data(), values.data());
        auto next = record_of.lower_bound(key);
        for (std::size_t j = 0; j < n; ++j, ++next) {
          // Records between two results were absent, or are of those that may be.
          while (next != record_of.end() && next->first < keys[j]) {
            if (!verdict.check(next->second % 3 != 0, "scan misses a key that is there")) return;
            ++next;
          }
          if (!verdict.check(next != record_of.end() && next->first == keys[j],
                             "scan returns a key that was never written, or not in order")) {
            return;
          }
          verdict.check(values[j] >> 40 == next->second, "scan returns another record's value");
        }
      }
    }
  });
  verdict.report();
  EXPECT_EQ(tree.size(), loaded + fresh.load());
  for (const auto& [key, value] : content_of(tree)) {
    const unsigned writer = static_cast<unsigned>(value >> 32 & 255);
    if (writer == 255) {
      for (const auto& writes : last) ASSERT_FALSE(writes.contains(key)) << "a write was lost";
    } else {
      ASSERT_LT(writer, thread_count);
      ASSERT_EQ(last[writer].at(key), value) << "an older write survived a newer one";
    }
  }
  for (const auto& writes : last) {
    for (const auto& [key, value] : writes) {
      std::uint64_t got = 0;
      ASSERT_TRUE(tree.lookup(key, got));
    }
  }
}

/// Nothing but inserts into one place: roots grow and leaves split as often as they can.
TEST_P(BTreeConcurrent, NoInsertIsLost) {
  const std::uint32_t slices = GetParam().slices;
  const auto key_of = GetParam().key;
  BTree tree({.slices = slices, .huge_pages = false});
  const std::uint64_t n = scaled(400'000);
  Verdict verdict;
  run_threads(thread_count, [&](unsigned t) {
    for (std::uint64_t record = t; record < n; record += thread_count) {
      verdict.check(tree.insert(key_of(record), record), "a fresh key was there");
      std::uint64_t value = 0;
      verdict.check(tree.lookup(key_of(record), value) && value == record, "a key was lost");
    }
  });
  verdict.report();
  const Map content = content_of(tree);
  ASSERT_EQ(content.size(), n);
  for (std::uint64_t record = 0; record < n; ++record) {
    ASSERT_EQ(content.at(key_of(record)), record);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BTreeConcurrent,
    ::testing::Values(Shape{"Scattered1", 1, [](std::uint64_t r) { return key_of_record(r, 0); }},
                      Shape{"Scattered64", 64, [](std::uint64_t r) { return key_of_record(r, 0); }},
                      Shape{"Dense", 5, [](std::uint64_t r) { return r; }},
                      Shape{"DenseFromTheEnd", 5, [](std::uint64_t r) { return ~r; }},
                      // Runs of 64 neighbours on both sides of each boundary between 8 slices.
                      Shape{"Boundaries", 8,
                            [](std::uint64_t r) {
                              return ((r / 64) % 8 << 61) + (r / 512 * 64 + r % 64) - 32;
                            }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace pmoss
