// The R-tree behind the runtime: ranges and inserts while its data move.
#include "kinds/served_rtree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "numa/memory.hpp"
#include "tests/runtime/small_runner.hpp"
#include "workload/random.hpp"

namespace pmoss::runtime {
namespace {

constexpr std::uint32_t top = ~std::uint32_t{0};

WorkloadSpec points_spec(double lookup, double insert, double scan) {
  WorkloadSpec spec = small_spec(lookup, insert, scan, 0);
  spec.distribution = Distribution::uniform;
  spec.space.kind = KeySpace::Kind::clustered;
  spec.max_scan_length = 10;
  return spec;
}

std::unique_ptr<Runner> loaded(const WorkloadSpec& spec) {
  auto runner = small_runner(spec, 2, "rtree");
  runner->load();
  return runner;
}

const RTree& rtree_of(const Runner& runner) {
  return dynamic_cast<const kinds::ServedRTree&>(runner.index()).tree();
}

/// All points that were loaded or inserted are there, each once.
void expect_no_point_lost(const Runner& runner, std::uint64_t inserted) {
  const std::uint64_t records = runner.spec().records;
  ASSERT_EQ(runner.index().size(), records + inserted);
  std::vector<std::uint64_t> values;
  rtree_of(runner).find({0, 0, top, top}, values);
  ASSERT_EQ(values.size(), records + inserted);
  std::sort(values.begin(), values.end());
  std::vector<std::uint64_t> drawn;
  // Routers may have left gaps among the last numbers, but what they drew was inserted.
  for (std::uint64_t record = 0; record < runner.next_insert_record(); ++record) {
    drawn.push_back(packed(point_of_record(KeySpace::Kind::clustered, record)));
  }
  std::vector<std::uint64_t> expected(drawn.begin(),
                                      drawn.begin() + static_cast<std::ptrdiff_t>(records));
  std::sort(expected.begin(), expected.end());
  EXPECT_TRUE(std::includes(values.begin(), values.end(), expected.begin(), expected.end()));
  std::sort(drawn.begin(), drawn.end());
  EXPECT_TRUE(std::includes(drawn.begin(), drawn.end(), values.begin(), values.end()));
}

TEST(RunnerRTree, LoadsEveryPointIntoItsCell) {
  const auto runner = loaded(points_spec(0, 0, 1));
  expect_no_point_lost(*runner, 0);
  const Grid grid = rtree_of(*runner).grid();
  EXPECT_EQ(grid.rows, 4U);
  std::vector<std::uint64_t> of_slice(slices);
  for (std::uint64_t record = 0; record < runner->spec().records; ++record) {
    ++of_slice[grid.slice_of(point_of_record(KeySpace::Kind::clustered, record))];
  }
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    EXPECT_EQ(rtree_of(*runner).slice_size(slice), of_slice[slice]);
  }
}

TEST(RunnerRTree, MeasuresRangesLookupsAndInserts) {
  const auto runner = loaded(points_spec(0.2, 0.2, 0.6));
  std::uint64_t inserted = 0;
  for (const std::uint32_t batch : {1U, 16U}) {
    MeasureOptions options = options_for(LoadKind::closed);
    options.batch = batch;
    const Measurement result = runner->measure(options);
    expect_consistent(result, options);
    EXPECT_GT(result.inserted, 0U);
    EXPECT_NE(result.checksum, 0U);
    inserted += result.inserted;
  }
  expect_no_point_lost(*runner, inserted);
  // Points have no update.
  WorkloadSpec spec = small_spec(0.5, 0, 0, 0.5);
  EXPECT_THROW(small_runner(spec, 2, "rtree"), std::invalid_argument);
}

TEST(RunnerRTree, ARangeOverSeveralCellsGoesToAnyOfTheirWorkers) {
  WorkloadSpec spec = points_spec(0, 0, 1);
  spec.max_scan_length = 4000;  // a fifth of all points: most ranges cross cells
  const kinds::ServedRTree index(spec, {grid_of(slices), 50, false, {}});
  const auto stream = index.stream(1, spec.records, 1);
  const ScanSquares squares(spec.records);
  std::size_t several = 0;
  for (int i = 0; i < 200; ++i) {
    const Operation operation = stream->next();
    const Rectangle range = squares.around(unpacked(operation.key), operation.scan_length);
    std::vector<std::uint32_t> expected;
    for (std::uint32_t row = 0; row < 4; ++row) {
      for (std::uint32_t column = 0; column < 4; ++column) {
        const std::uint32_t left = column << 30;
        const std::uint32_t low = row << 30;
        if (range.x_low <= left + ((1U << 30) - 1) && range.x_high >= left &&
            range.y_low <= low + ((1U << 30) - 1) && range.y_high >= low) {
          expected.push_back(row * 4 + column);
        }
      }
    }
    const Candidates candidates = stream->candidates(operation);
    std::vector<std::uint32_t> named;
    for (std::uint32_t n = 0; n < candidates.count(); ++n) named.push_back(candidates.at(n));
    EXPECT_EQ(named, expected);
    several += named.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(several, 100U);
}

/// Looks for loaded points, each in a range around it.
const char* look_at_points(const RTree& tree, const WorkloadSpec& spec, Random& random) {
  const Point point = point_of_record(spec.space.kind, random.below(spec.records));
  const std::uint32_t reach = top / 64;
  const auto low = [&](std::uint32_t at) { return at > reach ? at - reach : 0; };
  const auto high = [&](std::uint32_t at) { return at < top - reach ? at + reach : top; };
  const Rectangle range = {low(point.x), low(point.y), high(point.x), high(point.y)};
  std::vector<std::uint64_t> values;
  tree.find(range, values);
  for (const std::uint64_t value : values) {
    if (!range.contains(unpacked(value))) return "a point outside of the range was found";
  }
  if (std::find(values.begin(), values.end(), packed(point)) == values.end()) {
    return "a point was missed";
  }
  return nullptr;
}

// As for the B+-tree: schedules change every 50 ms, data follow, a fifth of the queries insert, and
// others look on.
TEST(RunnerRTree, NoPointIsLostWhileSchedulesChangeAllTheTime) {
  const auto runner = loaded(points_spec(0.2, 0.2, 0.6));
  const std::vector<int> nodes = numa::memory_nodes();
  std::uint64_t inserted = 0;
  Onlookers onlookers(
      [&](Random& random) { return look_at_points(rtree_of(*runner), runner->spec(), random); });
  Random random(5);
  for (const auto strategy : {MigrationStrategy::copy, MigrationStrategy::move_pages}) {
    MeasureOptions options = options_for(LoadKind::closed);
    options.seconds = 0.3 * stress_seconds();
    options.migration = {strategy, MigrationPace::lazy, 16, true};
    options.schedule.data = DataPlacement::slice;
    options.schedule.nodes.assign(slices, nodes.front());
    for (double at = 0.0; at < options.seconds; at += 0.05) {
      Schedule next = options.schedule;
      for (std::uint32_t slice = 0; slice < slices; ++slice) {
        next.cores[slice] = options.worker_cpus[random.below(options.worker_cpus.size())];
        next.nodes[slice] = nodes[random.below(nodes.size())];
      }
      options.changes.push_back({at, next});
    }
    const Measurement result = runner->measure(options);
    expect_consistent(result, options);
    EXPECT_GT(result.schedules, 0U);
    if (strategy == MigrationStrategy::copy) {
      EXPECT_GT(result.migration.nodes, 0U);
      EXPECT_GT(result.migration.bytes, result.migration.nodes * 256);
    }
    inserted += result.inserted;
  }
  onlookers.expect_content();
  expect_no_point_lost(*runner, inserted);
  if (nodes.size() == 1) return;
  // Now at rest, and all of it home.
  MeasureOptions options = options_for(LoadKind::closed);
  options.migration = {MigrationStrategy::copy, MigrationPace::aggressive, 16, true};
  options.schedule.data = DataPlacement::slice;
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    options.schedule.nodes.push_back(nodes[slice % nodes.size()]);
  }
  const Measurement result = runner->measure(options);
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    EXPECT_EQ(result.slice_placements[slice].home, result.slice_placements[slice].pages)
        << "slice " << slice;
  }
}

// PMOSS_STRESS_SWITCHES makes it longer.
TEST(RunnerRTree, NoPointIsLostWhileALiveRunSwitches) {
  const auto runner = loaded(points_spec(0.2, 0.2, 0.6));
  const std::vector<int> nodes = numa::memory_nodes();
  MeasureOptions options = options_for(LoadKind::closed);
  options.outstanding_per_worker = 4;
  options.migration = {MigrationStrategy::copy, MigrationPace::lazy, 16, true};
  if (numa::refused_placement() == 0) {
    options.schedule.data = DataPlacement::slice;
    options.schedule.nodes.assign(slices, nodes.front());
  }
  const Measurement result = switch_at_random(*runner, options, stress_switches() / 4, nodes);
  EXPECT_EQ(result.issued, result.executed);
  EXPECT_EQ(result.not_found, 0U);
  expect_no_point_lost(*runner, result.inserted);
}

}  // namespace
}  // namespace pmoss::runtime
