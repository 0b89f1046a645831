// Traces of the B+-tree: the touches that the node layout calls for, sampling, exact counts.
#include "recording/record.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "index/operation_cost.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::recording {
namespace {

using Kind = Operation::Kind;

WorkloadSpec mixed(std::uint64_t records = 200'000) {
  WorkloadSpec spec;
  spec.lookup = 0.4;
  spec.insert = 0.3;
  spec.scan = 0.1;
  spec.update = 0.2;
  spec.distribution = Distribution::zipf;
  spec.records = records;
  spec.seed = 5;
  return spec;
}

TraceOptions options(std::uint64_t queries, std::uint32_t line_sampling = 1,
                     std::uint32_t page_sampling = 1) {
  return {.queries = queries,
          .line_sampling = line_sampling,
          .page_sampling = page_sampling,
          .seed = 9};
}

std::uint32_t bits(Touch touch) {
  return touch.line() | touch.writes() << 31 | touch.streams() << 30 | touch.locks() << 29;
}

/// A number that changes with any bit of the trace.
std::uint64_t digest(const Trace& trace) {
  std::uint64_t hash = 0;
  const auto add = [&hash](std::uint64_t value) { hash = mix64(hash ^ value); };
  for (const auto& q : trace.queries) {
    add(q.first_touch);
    add(q.first_page);
    add(q.instructions);
    add(static_cast<std::uint64_t>(q.branch_misses * 1024.0f));
    add(static_cast<std::uint64_t>(q.dependent) << 48 |
        static_cast<std::uint64_t>(q.streaming) << 32 | static_cast<std::uint64_t>(q.writes) << 16 |
        q.pages);
    add(static_cast<std::uint64_t>(q.slice) << 8 | q.kind);
  }
  for (const Touch touch : trace.touches) add(bits(touch));
  for (const auto page : trace.page_touches) add(page);
  for (const auto slice : trace.slice_of_line) add(slice);
  for (const auto page : trace.address_page_of_line) add(page);
  for (const auto slice : trace.slice_of_page) add(slice);
  for (const auto page : trace.address_page_of_page) add(page);
  for (const auto bytes : trace.bytes_of_slice) add(bytes);
  return hash;
}

/// Nodes that an unsampled query locks.
std::ptrdiff_t locks_of(const Trace& trace, std::size_t query) {
  const auto touches = trace.touches_of(query);
  return std::count_if(touches.begin(), touches.end(), [](Touch touch) { return touch.locks(); });
}

TEST(RecordBTree, TouchesWhatTheNodeLayoutSays) {
  // About 140 leaves in each of 8 slices, below one root each: two levels.
  const auto trace = record_btree(mixed(), 8, options(20'000));
  ASSERT_EQ(trace->size(), 20'000u);
  std::map<std::uint8_t, int> queries_of_kind;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    const TracedQuery& q = trace->queries[i];
    ++queries_of_kind[q.kind];
    switch (static_cast<Kind>(q.kind)) {
      case Kind::lookup:
        // The root's address, and per level the head and a line of keys; beside them two lines of
        // samples and one of words.
        EXPECT_EQ(q.dependent, 1 + 2 * 2);
        EXPECT_EQ(q.streaming, 2 * 3);
        EXPECT_EQ(q.writes, 0);
        break;
      case Kind::update:
        EXPECT_EQ(q.dependent, 1 + 2 * 2 + 1);  // and the lock
        EXPECT_EQ(q.streaming, 3 + 2 + 1);
        EXPECT_EQ(q.writes, 2);
        break;
      case Kind::insert:
        // A leaf has 64 lines of entries and 2 of samples; of those read first, one more touch.
        if (locks_of(*trace, i) == 1) {  // no split
          EXPECT_EQ(q.dependent, 1 + 2 * 2 + 1);
          EXPECT_LE(q.streaming, 3 + 2 + 64 + 2);
        }
        EXPECT_GE(q.writes, 1 + 1 + 1);
        break;
      case Kind::scan:
        EXPECT_EQ(q.dependent, 1 + 2 * 2);
        EXPECT_EQ(q.writes, 0);
        // At most 100 entries: 14 lines each of keys and words in one leaf, 15 and a head in two.
        EXPECT_LE(q.streaming, 3 + 2 + 2 * 15 + 1);
        break;
    }
  }
  EXPECT_EQ(queries_of_kind.size(), 4u);
}

TEST(RecordBTree, InsertsMoveHalfALeafAndSplitAsOftenAsTheyFill) {
  WorkloadSpec spec;
  spec.lookup = 0.0;
  spec.insert = 1.0;
  spec.records = 400'000;
  const auto trace = record_btree(spec, 8, options(100'000));
  double writes = 0.0, locks = 0.0, splits = 0.0;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    const auto locked = static_cast<double>(locks_of(*trace, i));
    locks += locked;
    const bool split = locked > 1.0;
    splits += split ? 1.0 : 0.0;
    if (!split) writes += trace->queries[i].writes;
  }
  const double n = static_cast<double>(trace->size());
  // A leaf splits into two of 128 and 127, so one insert in 255 ln 2 makes a new leaf.
  EXPECT_NEAR(splits / n, 1.0 / (255.0 * std::log(2.0)), 0.0006);
  // A fresh key falls into a leaf of x entries with a probability in proportion to x. So the mean
  // leaf has E[x^2] / E[x] = 255 * 0.5 / ln 2 = 184 entries. Half of these move, in two arrays of 8
  // a line. The head, one line of samples or two, and the half-used lines at the ends are added.
  EXPECT_NEAR(writes / (n - splits), 2.0 * (184.0 / 2.0 / 8.0 + 1.0) + 1.0 + 1.4, 0.8);
  EXPECT_NEAR(locks / n, 1.0 + 2.0 / 177.0, 0.01);
}

TEST(RecordBTree, CountsDoNotDependOnSampling) {
  const auto all = record_btree(mixed(), 16, options(20'000));
  const auto some = record_btree(mixed(), 16, options(20'000, 8, 4));
  ASSERT_EQ(all->size(), some->size());
  for (std::size_t i = 0; i < all->size(); ++i) {
    const TracedQuery &a = all->queries[i], &b = some->queries[i];
    ASSERT_EQ(std::tuple(a.instructions, a.branch_misses, a.dependent, a.streaming, a.writes,
                         a.pages, a.slice, a.kind),
              std::tuple(b.instructions, b.branch_misses, b.dependent, b.streaming, b.writes,
                         b.pages, b.slice, b.kind));
    // Unsampled, the touches are what was counted.
    const auto touches = all->touches_of(i);
    const auto writes =
        std::count_if(touches.begin(), touches.end(), [](Touch touch) { return touch.writes(); });
    const auto streams =
        std::count_if(touches.begin(), touches.end(), [](Touch touch) { return touch.streams(); });
    ASSERT_EQ(touches.size(), static_cast<std::size_t>(a.dependent + a.streaming));
    ASSERT_EQ(static_cast<std::size_t>(writes), a.writes);
    ASSERT_EQ(static_cast<std::size_t>(streams), a.streaming);
    ASSERT_EQ(all->pages_of(i).size(), a.pages);
  }
  EXPECT_EQ(all->bytes_of_slice, some->bytes_of_slice);
}

/// Where each recorded line lies and by which queries it is touched in which way.
std::vector<std::vector<std::uint64_t>> histories(const Trace& trace) {
  std::vector<std::vector<std::uint64_t>> result(trace.lines());
  for (std::size_t line = 0; line < trace.lines(); ++line) {
    result[line] = {trace.slice_of_line[line], trace.address_page_of_line[line]};
  }
  for (std::size_t i = 0; i < trace.size(); ++i) {
    for (const Touch touch : trace.touches_of(i)) {
      result[touch.line()].push_back(i << 3 | bits(touch) >> 29);
    }
  }
  return result;
}

TEST(RecordBTree, SamplesEachLineAtEveryTouchOrNever) {
  constexpr std::uint32_t sampling = 16;
  const auto all = record_btree(mixed(), 16, options(40'000));
  const auto some = record_btree(mixed(), 16, options(40'000, sampling, sampling));
  // Each sampled line has the history of some line of the full trace, of another for each.
  std::multiset<std::vector<std::uint64_t>> full;
  for (auto& history : histories(*all)) full.insert(std::move(history));
  for (const auto& history : histories(*some)) {
    const auto match = full.find(history);
    ASSERT_NE(match, full.end());
    full.erase(match);
  }
  const double lines = static_cast<double>(all->lines()) / sampling;
  EXPECT_NEAR(static_cast<double>(some->lines()), lines, 5.0 * std::sqrt(lines));
  const double pages = static_cast<double>(all->pages()) / sampling;
  EXPECT_NEAR(static_cast<double>(some->pages()), pages, 5.0 * std::sqrt(pages));
}

TEST(RecordBTree, NumbersLinesByFirstTouchAndKeepsSlicesApart) {
  const auto trace = record_btree(mixed(), 64, options(30'000));
  std::uint32_t next = 0;
  for (const Touch touch : trace->touches) {
    ASSERT_LE(touch.line(), next);
    next += touch.line() == next ? 1 : 0;
  }
  EXPECT_EQ(next, trace->lines());
  ASSERT_EQ(trace->address_page_of_line.size(), trace->lines());
  ASSERT_EQ(trace->address_page_of_page.size(), trace->pages());
  // 512 pages make a chunk, which belongs to one slice; the last chunk is the root table's.
  std::map<std::uint32_t, std::uint16_t> owner;
  const std::uint32_t table =
      *std::max_element(trace->address_page_of_page.begin(), trace->address_page_of_page.end()) /
      512;
  for (std::size_t line = 0; line < trace->lines(); ++line) {
    const std::uint32_t chunk = trace->address_page_of_line[line] / 512;
    if (chunk == table) continue;
    ASSERT_EQ(owner.emplace(chunk, trace->slice_of_line[line]).first->second,
              trace->slice_of_line[line]);
  }
  EXPECT_EQ(owner.size(), 64u);  // each of the small slices fits into a chunk
  std::set<std::uint16_t> of_table;
  for (std::size_t line = 0; line < trace->lines(); ++line) {
    if (trace->address_page_of_line[line] / 512 == table) {
      of_table.insert(trace->slice_of_line[line]);
    }
  }
  EXPECT_EQ(of_table, (std::set<std::uint16_t>{0, 8, 16, 24, 32, 40, 48, 56}));
}

TEST(RecordBTree, RunsQueriesOnTheirSlicesAndScansOnOneThatTheyRead) {
  WorkloadSpec spec = mixed(2'000);
  spec.distribution = Distribution::uniform;
  constexpr std::uint32_t slices = 128;  // about 16 keys each: scans of up to 100 cross many
  const auto trace = record_btree(spec, slices, options(20'000));
  OperationGenerator generator(spec, 9, spec.records, 1);
  int moved = 0, scans = 0;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    const Operation operation = generator.next();
    const TracedQuery& q = trace->queries[i];
    ASSERT_EQ(q.kind, static_cast<std::uint8_t>(operation.kind));
    const std::uint32_t slice = slice_of_key(operation.key, slices);
    if (operation.kind != Kind::scan) {
      ASSERT_EQ(q.slice, slice);
      continue;
    }
    ++scans;
    moved += q.slice != slice ? 1 : 0;
    ASSERT_GE(q.slice, slice);
    std::set<std::uint32_t> touched;
    for (const Touch touch : trace->touches_of(i)) {
      if (!touch.locks()) touched.insert(trace->slice_of_line[touch.line()]);
    }
    ASSERT_TRUE(touched.contains(q.slice)) << i;
  }
  // Half of the entries lie behind the first slice in a scan over three slices, and so on.
  EXPECT_GT(moved, scans / 3);
  EXPECT_LT(moved, scans);
}

TEST(RecordBTree, IsTheSameBitsEachTimeAndAnotherForAnotherSeed) {
  const auto record = [](std::uint64_t instance, std::uint64_t stream) {
    WorkloadSpec spec = mixed();
    spec.seed = instance;
    TraceOptions some = options(20'000, 4, 2);
    some.seed = stream;
    return digest(*record_btree(spec, 16, some));
  };
  EXPECT_EQ(record(1, 2), record(1, 2));
  EXPECT_NE(record(1, 2), record(1, 3));
  EXPECT_NE(record(1, 2), record(2, 2));
}

TEST(RecordBTreeDeathTest, IsTheSameBitsInAnotherProcess) {
  // A new process with the tree at other addresses, not a copy of this one.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto own = digest(*record_btree(mixed(), 16, options(20'000, 4, 2)));
  EXPECT_EXIT(
      {
        const auto trace = record_btree(mixed(), 16, options(20'000, 4, 2));
        std::fprintf(stderr, "digest %llu.", static_cast<unsigned long long>(digest(*trace)));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "digest " + std::to_string(own) + "\\.");
}

TEST(RecordBTree, RefusesScansThatATraceCannotCount) {
  WorkloadSpec spec;
  spec.lookup = 0.0;
  spec.scan = 1.0;
  spec.records = 400'000;
  spec.max_scan_length = 4'000'000'000;
  EXPECT_THROW(record_btree(spec, 4, options(10)), std::invalid_argument);
  spec.max_scan_length = 100'000;
  EXPECT_EQ(record_btree(spec, 4, options(10))->size(), 10u);
}

TEST(RecordBTree, StatesTheInstructionsOfEachKind) {
  const auto trace = record_btree(mixed(), 8, options(5'000));  // two levels, largest share 0.4
  for (std::size_t i = 0; i < trace->size(); ++i) {
    const TracedQuery& q = trace->queries[i];
    if (static_cast<Kind>(q.kind) == Kind::lookup) {
      ASSERT_EQ(q.instructions, worker_cost(0.4).instructions + lookup_cost(2).instructions);
      ASSERT_FLOAT_EQ(q.branch_misses, 0.6f);
    } else if (static_cast<Kind>(q.kind) == Kind::insert && locks_of(*trace, i) == 1) {
      ASSERT_EQ(q.instructions,
                worker_cost(0.4).instructions + insert_cost(2, q.writes).instructions);
    } else if (static_cast<Kind>(q.kind) == Kind::scan) {
      ASSERT_GT(q.instructions, worker_cost(0.4).instructions + scan_cost(2, 0).instructions);
    }
  }
}

std::string refusal(const WorkloadSpec& spec, std::uint32_t slices, const TraceOptions& options) {
  try {
    record_btree(spec, slices, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(RecordBTree, RefusesBeforeItAllocates) {
  const WorkloadSpec spec = mixed();
  EXPECT_NE(refusal(spec, 0, options(10)).find("slices is 0"), std::string::npos);
  EXPECT_NE(refusal(spec, 65'537, options(10)).find("slices is 65537"), std::string::npos);
  EXPECT_NE(refusal(spec, 4, options(0)).find("queries is 0"), std::string::npos);
  EXPECT_NE(refusal(spec, 4, options(10, 0)).find("line_sampling is 0"), std::string::npos);
  EXPECT_NE(refusal(spec, 4, options(10, 1, 0)).find("page_sampling is 0"), std::string::npos);
  WorkloadSpec large = spec;
  large.records = 500'000'000'000;
  EXPECT_NE(refusal(large, 4, options(10, 1'000'000)).find("lower records"), std::string::npos);
  EXPECT_NE(refusal(large, 4, options(10)).find("line_sampling"), std::string::npos);
  WorkloadSpec lookups;
  EXPECT_NE(refusal(lookups, 4, options(1'000'000'000'000'000)).find("GiB"), std::string::npos);
}

}  // namespace
}  // namespace pmoss::recording
