// Traces of the R-tree: the touches that its nodes call for, where queries run, sizes.
#include "recording/record_rtree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "index/operation_cost.hpp"
#include "index/rtree_node.hpp"

namespace pmoss::recording {
namespace {

using Kind = Operation::Kind;

WorkloadSpec ranges(std::uint64_t records = 200'000) {
  WorkloadSpec spec;
  spec.lookup = 0.0;
  spec.scan = 1.0;
  spec.records = records;
  spec.max_scan_length = 10;
  spec.space.kind = KeySpace::Kind::clustered;
  return spec;
}

TraceOptions options(std::uint64_t queries, std::uint32_t line_sampling = 1) {
  return {.queries = queries, .line_sampling = line_sampling, .page_sampling = 1, .seed = 9};
}

bool same(const Trace& a, const Trace& b) {
  if (a.touches.size() != b.touches.size() || a.queries.size() != b.queries.size()) return false;
  for (std::size_t i = 0; i < a.touches.size(); ++i) {
    if (a.touches[i].line() != b.touches[i].line() ||
        a.touches[i].writes() != b.touches[i].writes()) {
      return false;
    }
  }
  for (std::size_t i = 0; i < a.queries.size(); ++i) {
    if (a.queries[i].slice != b.queries[i].slice ||
        a.queries[i].instructions != b.queries[i].instructions ||
        a.queries[i].pages != b.queries[i].pages) {
      return false;
    }
  }
  return a.address_page_of_line == b.address_page_of_line && a.page_touches == b.page_touches &&
         a.bytes_of_slice == b.bytes_of_slice;
}

TEST(RecordRTree, TouchesTheSearchedLinesOfEveryNodeVisited) {
  const auto trace = record_rtree(ranges(), 16, options(3'000));
  ASSERT_EQ(trace->size(), 3'000u);
  // Fanout 50 is four lines of 16 coordinates in each of an inner node's four arrays and a leaf's
  // two, behind a head.
  constexpr double leaf_lines = 9;
  constexpr double worker = 130;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    const TracedQuery& query = trace->queries[i];
    EXPECT_EQ(query.writes, 0);
    EXPECT_EQ(query.kind, static_cast<std::uint8_t>(Kind::scan));
    // Every node costs 270 instructions, so they bound how many there are.
    const double nodes = (query.instructions - worker) / 270.0;
    EXPECT_GE(query.dependent + query.streaming, leaf_lines);
    EXPECT_GE(query.dependent, 2);  // the root's address and the root
    EXPECT_LE(query.dependent, 4 + nodes);
    const auto touches = trace->touches_of(i);
    EXPECT_EQ(touches.size(), query.dependent + query.streaming);
  }
}

TEST(RecordRTree, RunsQueriesOnACellThatTheyOverlap) {
  const WorkloadSpec spec = ranges();
  const auto trace = record_rtree(spec, 64, options(5'000));
  PointGenerator generator(spec, options(0).seed);
  const Grid grid = grid_of(64);
  int elsewhere = 0;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    const PointOperation operation = generator.next();
    const Rectangle& range = operation.range;
    const std::uint32_t slice = trace->queries[i].slice;
    const std::uint32_t row = slice / grid.columns;
    const std::uint32_t column = slice % grid.columns;
    EXPECT_GE(row, grid.row_of(range.y_low));
    EXPECT_LE(row, grid.row_of(range.y_high));
    EXPECT_GE(column, grid.column_of(range.x_low));
    EXPECT_LE(column, grid.column_of(range.x_high));
    const Point point = point_of_record(spec.space.kind, operation.record);
    elsewhere += slice == grid.slice_of(point) ? 0 : 1;
  }
  EXPECT_GT(elsewhere, 0);
}

TEST(RecordRTree, InsertsLockWriteAndGrow) {
  WorkloadSpec spec = ranges();
  spec.insert = 0.5;
  spec.scan = 0.5;
  const auto trace = record_rtree(spec, 16, options(4'000));
  const auto before = record_rtree(ranges(), 16, options(1));
  int inserts = 0;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    const auto touches = trace->touches_of(i);
    const auto locks =
        std::count_if(touches.begin(), touches.end(), [](Touch touch) { return touch.locks(); });
    const bool insert = trace->queries[i].kind == static_cast<std::uint8_t>(Kind::insert);
    EXPECT_EQ(locks, insert ? 1 : 0);
    EXPECT_EQ(trace->queries[i].writes > 0, insert);
    inserts += insert ? 1 : 0;
  }
  EXPECT_NEAR(inserts, 2'000, 150);
  std::uint64_t bytes = 0;
  std::uint64_t bytes_before = 0;
  for (const auto b : trace->bytes_of_slice) bytes += b;
  for (const auto b : before->bytes_of_slice) bytes_before += b;
  EXPECT_GT(bytes, bytes_before);
}

TEST(RecordRTree, CountsDoNotDependOnSampling) {
  const auto all = record_rtree(ranges(), 16, options(4'000));
  const auto some = record_rtree(ranges(), 16, options(4'000, 8));
  for (std::size_t i = 0; i < all->size(); ++i) {
    EXPECT_EQ(all->queries[i].dependent, some->queries[i].dependent);
    EXPECT_EQ(all->queries[i].streaming, some->queries[i].streaming);
    EXPECT_EQ(all->queries[i].pages, some->queries[i].pages);
  }
  const double ratio =
      static_cast<double>(all->touches.size()) / static_cast<double>(some->touches.size());
  EXPECT_NEAR(ratio, 8.0, 1.0);
}

TEST(RecordRTree, HoldsTheSamePointsInEveryInstance) {
  WorkloadSpec spec = ranges();
  spec.distribution = Distribution::hot_range;
  const auto a = record_rtree(spec, 16, options(2'000));
  const auto again = record_rtree(spec, 16, options(2'000));
  spec.seed = 1;
  const auto b = record_rtree(spec, 16, options(2'000));
  EXPECT_TRUE(same(*a, *again));
  EXPECT_FALSE(same(*a, *b));
  EXPECT_EQ(a->bytes_of_slice, b->bytes_of_slice);
}

TEST(RecordRTree, RefusesBeforeItAllocates) {
  WorkloadSpec spec = ranges();
  EXPECT_THROW(record_rtree(spec, 0, options(10)), std::invalid_argument);
  EXPECT_THROW(record_rtree(spec, 16, options(0)), std::invalid_argument);
  spec.records = std::uint64_t{1} << 39;
  EXPECT_THROW(record_rtree(spec, 16, options(10, 1 << 20)), std::invalid_argument);
  spec.records = 1'000'000'000'000;
  EXPECT_THROW(record_rtree(spec, 16, options(10)), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::recording
