// Schedules that place and move data while queries run. On one node data move within it; what needs
// several nodes is skipped there and runs in the guest with four (tests/numa).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "numa/memory.hpp"
#include "numa/topology.hpp"
#include "runtime/runner.hpp"
#include "tests/runtime/small_runner.hpp"
#include "workload/keyspace.hpp"
#include "workload/random.hpp"

namespace pmoss::runtime {
namespace {

class RunnerPlacement : public testing::Test {
 protected:
  RunnerPlacement() {
    for (const numa::Cpu& cpu : numa::read_topology().cpus) node_of_[cpu.id] = cpu.node;
  }

  Runner& make(const WorkloadSpec& spec) {
    runner_ = small_runner(spec);
    runner_->load();
    return *runner_;
  }

  /// One worker on every CPU, slices and their data in turn on all of them.
  MeasureOptions on_all_cpus() const {
    MeasureOptions options = options_for(LoadKind::closed);
    options.worker_cpus = numa::allowed_cpus();
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      const int cpu = options.worker_cpus[slice % options.worker_cpus.size()];
      options.schedule.cores[slice] = cpu;
      options.schedule.nodes.push_back(node_of_.at(cpu));
    }
    options.schedule.data = DataPlacement::slice;
    options.migration.pace = MigrationPace::aggressive;
    return options;
  }

  void SetUp() override {
    const int refused = numa::refused_placement();
    if (refused != 0) GTEST_SKIP() << numa::explain_memory_error(refused);
  }

  static void expect_home(const Measurement& result) {
    EXPECT_TRUE(result.in_place);
    EXPECT_EQ(result.migration.slices_failed, 0U);
    ASSERT_EQ(result.slice_placements.size(), slices);
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      const SlicePlacement& placement = result.slice_placements[slice];
      EXPECT_GT(placement.pages, 0U);
      EXPECT_EQ(placement.home, placement.pages) << "slice " << slice;
      EXPECT_EQ(placement.cause(), "") << "slice " << slice;
    }
  }

  /// Every record that was loaded or inserted is there, once.
  static void expect_no_key_lost(const Runner& runner, std::uint64_t inserted) {
    const std::uint64_t records = runner.next_insert_record();
    const std::uint64_t loaded = runner.spec().records;
    ASSERT_EQ(runner.index().size(), loaded + inserted);
    std::vector<std::uint64_t> keys(runner.index().size() + 1);
    ASSERT_EQ(btree_of(runner).scan(0, keys.size(), keys.data(), nullptr), loaded + inserted);
    keys.pop_back();
    for (std::size_t i = 1; i < keys.size(); ++i) ASSERT_LT(keys[i - 1], keys[i]);
    // Routers may have left gaps among the last numbers, but what they drew was inserted.
    std::uint64_t count = 0;
    for (std::uint64_t record = 0; record < records; ++record) {
      std::uint64_t value = 0;
      const bool found = btree_of(runner).lookup(key_of_record(record, runner.spec().seed), value);
      ASSERT_TRUE(found || record >= loaded) << record;
      count += found ? 1 : 0;
    }
    EXPECT_EQ(count, loaded + inserted);
  }

  std::map<int, int> node_of_;
  std::unique_ptr<Runner> runner_;
};

TEST_F(RunnerPlacement, DataFollowTheScheduleByEitherStrategy) {
  Runner& runner = make(small_spec(0.5, 0.25, 0.05, 0.2));
  const bool several = numa::memory_nodes().size() > 1;
  std::uint64_t inserted = 0;
  for (const auto strategy : {MigrationStrategy::copy, MigrationStrategy::move_pages}) {
    MeasureOptions options = on_all_cpus();
    options.migration.strategy = strategy;
    auto& nodes = options.schedule.nodes;
    if (strategy == MigrationStrategy::move_pages) {
      std::rotate(nodes.begin(), nodes.begin() + 1, nodes.end());
    }
    for (int turn = 0; turn < 2; ++turn) {
      const Measurement result = runner.measure(options);
      expect_consistent(result, options);
      expect_home(result);
      inserted += result.inserted;
      // The first time all move; what is where it belongs stays.
      if (strategy == MigrationStrategy::copy && turn == 0) {
        EXPECT_EQ(result.migration.slices, slices);
      }
      if (turn == 1) {
        EXPECT_EQ(result.migration.slices, 0U);
      }
      if (strategy == MigrationStrategy::move_pages && turn == 0 && several) {
        EXPECT_GT(result.migration.pages, 0U);
        EXPECT_EQ(result.migration.pages_failed, 0U);
      }
    }
  }
  expect_no_key_lost(runner, inserted);
}

TEST_F(RunnerPlacement, FirstTouchBeginsWhereTheDataWereLoaded) {
  const std::vector<int> nodes = numa::memory_nodes();
  if (nodes.size() < 2) GTEST_SKIP() << "needs two nodes with memory";
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = on_all_cpus();
  options.schedule.data = DataPlacement::first_touch;
  std::fill(options.schedule.nodes.begin(), options.schedule.nodes.end(), nodes[0]);
  expect_home(runner.measure(options));
  EXPECT_EQ(runner.measure(options).migration.slices, 0U);
  // Behind the back of the index, as automatic balancing does.
  auto& index = const_cast<ServedIndex&>(runner.index());
  EXPECT_GT(index.memory(3).move_pages(nodes[1]).moved, 0U);
  const Measurement again = runner.measure(options);
  expect_home(again);
  EXPECT_EQ(again.migration.slices, 1U);
}

TEST_F(RunnerPlacement, LazyMovesGoOnWhileQueriesAreCounted) {
  Runner& runner = make(small_spec(0.5, 0, 0, 0.5));
  MeasureOptions options = on_all_cpus();
  options.migration.pace = MigrationPace::lazy;
  options.migration.lazy_nodes = 3;
  options.seconds = 0.6;
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  EXPECT_EQ(result.placing_seconds, 0.0);  // no query waits for them
  EXPECT_GT(result.migration.nodes, 0U);
  EXPECT_EQ(result.migration.bytes, result.migration.nodes * sizeof(index_detail::Node));
}

TEST_F(RunnerPlacement, AnyWorkerMayServeWhenTheOperatingSystemPlaces) {
  Runner& runner = make(small_spec(0.5, 0, 0, 0.5));
  for (const auto data : {DataPlacement::first_touch, DataPlacement::interleaved}) {
    MeasureOptions options = on_all_cpus();
    options.schedule.cores.clear();  // not needed
    options.schedule.routing = Routing::any;
    options.schedule.data = data;
    options.schedule.nodes.assign(slices, numa::memory_nodes().front());
    const Measurement result = runner.measure(options);
    expect_consistent(result, options);
    expect_home(result);
    const std::size_t workers = options.worker_cpus.size();
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      if (result.slice_queries[slice] < 200) continue;
      for (std::size_t worker = 0; worker < workers; ++worker) {
        EXPECT_GT(result.worker_slice_queries[worker * slices + slice], 0U);
      }
    }
    if (data != DataPlacement::interleaved) continue;
    const auto nodes = numa::memory_nodes();
    // With larger pages a slice of this size has fewer of them than there are nodes.
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 4096;
    if (result.pages.total() < slices * nodes.size() * page) continue;
    for (const int node : nodes) {
      const double share =
          static_cast<double>(result.pages.on(node)) / static_cast<double>(result.pages.total());
      // Slices of this size have few pages, and the first one of each is on the same node.
      EXPECT_NEAR(share, 1.0 / static_cast<double>(nodes.size()), 0.12) << "node " << node;
    }
  }
}

TEST_F(RunnerPlacement, OnlyTheNodesWorkersServeASliceThatIsRoutedByNode) {
  Runner& runner = make(small_spec(0.5, 0.2, 0, 0.3));
  MeasureOptions options = on_all_cpus();
  options.schedule.cores.clear();
  options.schedule.routing = Routing::node;
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  expect_home(result);
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    for (std::size_t worker = 0; worker < options.worker_cpus.size(); ++worker) {
      const std::uint64_t queries = result.worker_slice_queries[worker * slices + slice];
      if (node_of_.at(options.worker_cpus[worker]) != options.schedule.nodes[slice]) {
        EXPECT_EQ(queries, 0U);
      } else if (result.slice_queries[slice] > 400) {
        EXPECT_GT(queries, 0U);
      }
    }
  }
}

TEST_F(RunnerPlacement, InterleavedDataLieOnTheNodesThatAreNamed) {
  Runner& runner = make(small_spec(0.5, 0, 0, 0.5));
  MeasureOptions options = on_all_cpus();
  options.schedule.data = DataPlacement::interleaved;
  options.migration.interleave_nodes = {numa::memory_nodes().back()};
  const Measurement result = runner.measure(options);
  expect_home(result);
  EXPECT_EQ(result.pages.on(numa::memory_nodes().back()), result.pages.total());
  options.migration.interleave_nodes = {1000};
  EXPECT_THROW(runner.measure(options), std::invalid_argument);
}

TEST_F(RunnerPlacement, QueuesAndCountsLieOnTheNodeOfTheirWorkerInEveryMeasurement) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = on_all_cpus();
  for (int turn = 0; turn < 3; ++turn) {
    // Threads end and others begin elsewhere: none may get the memory of another node's.
    std::reverse(options.worker_cpus.begin(), options.worker_cpus.end());
    const Measurement result = runner.measure(options);
    ASSERT_EQ(result.worker_pages.size(), options.worker_cpus.size());
    for (std::size_t i = 0; i < options.worker_cpus.size(); ++i) {
      EXPECT_GT(result.worker_pages[i], 0U);
      EXPECT_EQ(result.worker_pages_home[i], result.worker_pages[i])
          << "worker on CPU " << options.worker_cpus[i];
    }
  }
}

TEST_F(RunnerPlacement, NothingIsAskedWhereDataStay) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = on_all_cpus();
  options.schedule.data = DataPlacement::keep;
  const Measurement result = runner.measure(options);
  EXPECT_EQ(result.pages.total(), 0U);
  EXPECT_EQ(result.worker_pages, std::vector<std::uint64_t>(options.worker_cpus.size()));
  EXPECT_TRUE(result.in_place);
  ASSERT_EQ(result.slice_placements.size(), slices);
  for (const SlicePlacement& slice : result.slice_placements) EXPECT_EQ(slice.pages, 0U);
}

// The enforcer may be half way through a slice when the queries end, again and again.
TEST_F(RunnerPlacement, MemoryStaysThatOfOneIndexAfterManyUnfinishedMoves) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  const auto pages = [&] {
    std::uint64_t sum = 0;
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      sum += runner.index().memory(slice).resident_pages().total();
    }
    return sum;
  };
  const std::uint64_t loaded = pages();
  MeasureOptions options = on_all_cpus();
  options.migration = {MigrationStrategy::copy, MigrationPace::lazy, 1, true, {}};
  options.seconds = 0.02;
  options.warmup_seconds = 0.0;
  for (int turn = 0; turn < 10; ++turn) runner.measure(options);
  EXPECT_LE(pages(), loaded + loaded / 10);
}

TEST_F(RunnerPlacement, LoadedPagesLieWhereTheyWereTouchedOrPlaced) {
  const WorkloadSpec spec = small_spec(1, 0, 0, 0);
  for (const int node : numa::memory_nodes()) {
    const auto runner = kinds::make_runner(kinds::kind_named("btree"), spec,
                                           {slices, false, numa::Placement::on(node)}, 1);
    runner->load();
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      const numa::ResidentPages pages = runner->index().memory(slice).resident_pages();
      EXPECT_EQ(pages.on(node), pages.total());
    }
  }
}

/// Reads loaded keys one by one, in batches and by scans. Queries write a key's value as the key
/// and the number of queries so far, so that the value of another key is recognised.
const char* look_at_keys(const BTree& tree, const WorkloadSpec& spec, Random& random) {
  constexpr std::size_t n = 32;
  constexpr std::uint64_t most_queries = std::uint64_t{1} << 40;
  std::uint64_t keys[n], values[n];
  bool found[n];
  for (auto& key : keys) key = key_of_record(random.below(spec.records), spec.seed);
  std::uint64_t value = 0;
  if (!tree.lookup(keys[0], value)) return "a lookup misses a key";
  if (value - keys[0] >= most_queries) return "a lookup returns the value of another key";
  if (tree.lookup_batch(keys, n, values, found) != n) return "a batch misses a key";
  for (std::size_t i = 0; i < n; ++i) {
    if (values[i] - keys[i] >= most_queries) return "a batch returns the value of another key";
  }
  const std::uint64_t first = keys[0];
  const std::size_t count = tree.scan(first, n, keys, values);
  if (count == 0 || keys[0] != first) return "a scan misses its first key";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && keys[i] <= keys[i - 1]) return "a scan is not ascending";
    if (values[i] - keys[i] >= most_queries) return "a scan returns the value of another key";
  }
  return nullptr;
}

// Schedules change at random every 50 ms, cores at once and data behind them. Queries read, write
// and scan, and others look on. PMOSS_STRESS_SECONDS makes it longer.
TEST_F(RunnerPlacement, NoKeyIsLostWhileSchedulesChangeAllTheTime) {
  const double seconds = stress_seconds();
  Runner& runner = make(small_spec(0.4, 0.2, 0.2, 0.2));
  Onlookers onlookers(
      [&](Random& random) { return look_at_keys(btree_of(runner), runner.spec(), random); });
  std::uint64_t inserted = 0;
  std::uint64_t schedules = 0;
  Random random(3);
  const std::vector<int> nodes = numa::memory_nodes();
  for (const auto strategy : {MigrationStrategy::copy, MigrationStrategy::move_pages}) {
    for (const auto pace : {MigrationPace::lazy, MigrationPace::aggressive}) {
      MeasureOptions options = on_all_cpus();
      options.migration = {strategy, pace, 16, true, {}};
      options.seconds = seconds / 4;
      options.batch = pace == MigrationPace::lazy ? 1 : 16;
      for (double at = 0.0; at < options.seconds; at += 0.05) {
        Schedule next = options.schedule;
        for (std::uint32_t slice = 0; slice < slices; ++slice) {
          next.cores[slice] = options.worker_cpus[random.below(options.worker_cpus.size())];
          next.nodes[slice] = nodes[random.below(nodes.size())];
        }
        next.routing = random.below(4) == 0 ? Routing::any : Routing::core;
        options.changes.push_back({at, next});
      }
      const Measurement result = runner.measure(options);
      expect_consistent(result, options);
      schedules += result.schedules;
      inserted += result.inserted;
    }
  }
  EXPECT_GT(schedules, 0U);
  onlookers.expect_content();
  expect_no_key_lost(runner, inserted);
}

}  // namespace
}  // namespace pmoss::runtime
