// Runs whose schedule changes while queries are served.
#include "runtime/live.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <memory_resource>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "index/btree.hpp"
#include "kinds/index_kind.hpp"
#include "kinds/served_btree.hpp"
#include "numa/memory.hpp"
#include "runtime/runner.hpp"
#include "tests/runtime/small_runner.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::runtime {
namespace {

constexpr std::chrono::duration<double> long_enough(60.0);

using Look = std::function<void(const Item&)>;

/// Runs queries, and looks at each answer.
class WatchedExecutor final : public QueryExecutor {
 public:
  WatchedExecutor(InNodeMemory<QueryExecutor> inner, const Look& look)
      : inner_(std::move(inner)), look_(look) {}

  void execute(const EpochGuard& guard, const Item& item) override {
    inner_->execute(guard, item);
    look_(item);
    totals_ = inner_->totals();
  }
  void execute_batch(const EpochGuard& guard, const Ring& ring, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) execute(guard, ring.front(i));
  }

 private:
  InNodeMemory<QueryExecutor> inner_;
  const Look& look_;
};

/// An index that is watched while it is served.
class WatchedIndex final : public ServedIndex {
 public:
  explicit WatchedIndex(const WorkloadSpec& spec)
      : inner_(kinds::kind_named("btree").serve(spec, {slices_, false, {}})) {}

  Look look = [](const Item&) {};
  const BTree& tree() const { return dynamic_cast<const kinds::ServedBTree&>(*inner_).tree(); }

  std::uint32_t slices() const noexcept override { return slices_; }
  std::uint64_t size() const noexcept override { return inner_->size(); }
  SliceOfKey slice_of_key() const noexcept override { return inner_->slice_of_key(); }
  double bytes_to_load() const noexcept override { return inner_->bytes_to_load(); }
  void load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
            const std::function<bool()>& cancelled) override {
    inner_->load(first, last, done, cancelled);
  }
  std::unique_ptr<QueryStream> stream(std::uint64_t seed, std::uint64_t first_insert_record,
                                      std::uint64_t insert_stride) const override {
    return inner_->stream(seed, first_insert_record, insert_stride);
  }
  InNodeMemory<QueryExecutor> executor(std::pmr::memory_resource& memory) override {
    return make_in<WatchedExecutor>(memory, inner_->executor(memory), look);
  }
  numa::PlacedMemory& memory(std::uint32_t slice) override { return inner_->memory(slice); }
  const numa::PlacedMemory& memory(std::uint32_t slice) const override {
    return std::as_const(*inner_).memory(slice);
  }
  void free_spare_memory() override { inner_->free_spare_memory(); }
  std::unique_ptr<SliceMigration> migrate(std::uint32_t slice, const numa::Placement& to) override {
    return inner_->migrate(slice, to);
  }
  std::size_t reclaim() override { return inner_->reclaim(); }

 private:
  static constexpr std::uint32_t slices_ = runtime::slices;
  std::unique_ptr<ServedIndex> inner_;
};

class RunnerLive : public testing::Test {
 protected:
  Runner& make(const WorkloadSpec& spec) {
    auto index = std::make_unique<WatchedIndex>(spec);
    index_ = index.get();
    runner_ = std::make_unique<Runner>(spec, std::move(index), 2);
    runner_->load();
    return *runner_;
  }

  /// Data are copied at every change, also where there is one node.
  static MeasureOptions live_options(double sweep_seconds = 2e-3) {
    MeasureOptions options = options_for(LoadKind::closed);
    options.until_stopped = true;
    options.sweep_seconds = sweep_seconds;
    options.warmup_seconds = 0.0;
    options.outstanding_per_worker = 4;
    options.migration.always = true;
    options.migration.lazy_nodes = 16;
    if (numa::refused_placement() != 0) return options;
    options.schedule.data = DataPlacement::slice;
    options.schedule.nodes.assign(slices, numa::memory_nodes().front());
    return options;
  }

  std::uint64_t keys_lost(const WorkloadSpec& spec, std::uint64_t records) const {
    std::uint64_t lost = 0;
    for (std::uint64_t record = 0; record < records; ++record) {
      std::uint64_t value = 0;
      lost += index_->tree().lookup(key_of_record(record, spec.seed), value) ? 0 : 1;
    }
    return lost;
  }

  WatchedIndex* index_ = nullptr;
  std::unique_ptr<Runner> runner_;
};

// PMOSS_STRESS_SWITCHES makes it longer.
TEST_F(RunnerLive, EveryQueryIsAnsweredWhileALiveRunSwitches) {
  const WorkloadSpec spec = small_spec(0.4, 0.2, 0.2, 0.2);
  Runner& runner = make(spec);
  std::atomic<std::uint64_t> looks{0};
  std::atomic<std::uint64_t> wrong{0};
  index_->look = [&](const Item& item) {
    // Queries write a key's value as the key, or that and the number of queries so far.
    constexpr std::uint64_t most_queries = std::uint64_t{1} << 40;
    std::uint64_t value = 0;
    const bool found = index_->tree().lookup(item.key(), value);
    const bool must_be_there = item.kind() != Operation::Kind::scan;
    if (found ? value - item.key() >= most_queries : must_be_there) ++wrong;
    ++looks;
  };
  const Measurement result =
      switch_at_random(runner, live_options(), stress_switches(), numa::memory_nodes());
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_EQ(result.issued, result.executed);
  EXPECT_EQ(looks.load(), result.executed);
  EXPECT_EQ(result.not_found, 0U);
  EXPECT_GT(result.inserted, 0U);
  EXPECT_EQ(runner.index().size(), spec.records + result.inserted);
  EXPECT_EQ(keys_lost(spec, runner.next_insert_record()), 0U);
  if (numa::refused_placement() == 0) {
    EXPECT_GT(result.migration.bytes, 0U);
  }
  std::printf("%llu switches, %llu queries\n", static_cast<unsigned long long>(result.schedules),
              static_cast<unsigned long long>(result.executed));
}

TEST_F(RunnerLive, ARoundIsAWholeSnapshot) {
  Runner& runner = make(small_spec(0.5, 0, 0, 0.5));
  const MeasureOptions options = live_options();
  const auto run = runner.start(options);
  double ended = 0.0;
  for (std::uint64_t number = 0; number < 5; ++number) {
    const std::optional<Round> round = run->next_round(long_enough, {});
    ASSERT_TRUE(round);
    EXPECT_EQ(round->number, number);
    EXPECT_GT(round->ended_seconds, ended);
    ended = round->ended_seconds;
    EXPECT_GT(round->seconds, 0.0);
    EXPECT_EQ(round->slice_queries.size(), slices);
    EXPECT_EQ(sum(round->slice_queries), round->completed);
    EXPECT_EQ(round->slice_counters.size(), slices * pmu::event_count);
    EXPECT_EQ(round->worker_queries.size(), options.worker_cpus.size());
    EXPECT_EQ(round->schedules, 0U);
    if (round->completed == 0) continue;  // a busy host
    EXPECT_GT(round->latency_p50_us, 0.0);
    EXPECT_GE(round->latency_p99_us, round->latency_p50_us);
  }
  expect_consistent(run->stop({}), [&] {
    MeasureOptions short_one = options;
    short_one.seconds = 0.0;
    return short_one;
  }());
}

TEST_F(RunnerLive, RoundsTellThatRoutersFallBehind) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = live_options();
  options.load = LoadKind::open;
  options.rate_mqs = 1e5;  // more than any host serves
  const auto run = runner.start(options);
  std::uint64_t waits = 0;
  double lag_us = 0.0;
  while (waits == 0 || lag_us == 0.0) {
    const std::optional<Round> round = run->next_round(long_enough, {});
    ASSERT_TRUE(round);
    waits += round->backpressure;
    lag_us = std::max(lag_us, round->lag_us);
  }
  EXPECT_GE(run->stop({}).backpressure, waits);
}

TEST_F(RunnerLive, TheOldestRoundsAreDroppedBeforeASlowReader) {
  RoundQueue queue(2);
  EXPECT_FALSE(queue.take(std::chrono::duration<double>(0.0)));
  for (const std::uint64_t number : {5U, 6U, 7U}) {
    Round round;
    round.number = number;
    queue.append(std::move(round));
  }
  const auto first = queue.take(long_enough);
  const auto second = queue.take(long_enough);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->number, 6U);
  EXPECT_EQ(first->dropped, 1U);
  EXPECT_EQ(second->number, 7U);
  EXPECT_EQ(second->dropped, 0U);
  EXPECT_FALSE(queue.take(std::chrono::duration<double>(0.0)));
}

TEST_F(RunnerLive, NobodyWaitsForASlowReader) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = live_options(1e-3);
  options.kept_rounds = 2;
  const auto run = runner.start(options);
  std::uint64_t expected = 0;
  for (std::uint64_t dropped = 0; dropped == 0;) {
    run->wait(std::chrono::milliseconds(20), {});  // the reader does something else
    const std::optional<Round> round = run->next_round(long_enough, {});
    ASSERT_TRUE(round);
    EXPECT_EQ(round->number, expected + round->dropped);
    expected = round->number + 1;
    dropped = round->dropped;
  }
  const Measurement result = run->stop({});
  EXPECT_EQ(result.issued, result.executed);
}

TEST_F(RunnerLive, CanBeStoppedInTheMiddleOfALazySwitch) {
  if (const int refused = numa::refused_placement(); refused != 0) {
    GTEST_SKIP() << numa::explain_memory_error(refused);
  }
  const WorkloadSpec spec = small_spec(0.5, 0.2, 0.1, 0.2);
  Runner& runner = make(spec);
  MeasureOptions options = live_options();
  options.schedule.data = DataPlacement::keep;
  options.migration.lazy_nodes = 1;
  const auto run = runner.start(options);
  Schedule next = options.schedule;
  next.data = DataPlacement::slice;
  run->change(next, MigrationPace::lazy);
  std::size_t pending = 0;
  while (pending == 0) {
    const std::optional<Round> round = run->next_round(long_enough, {});
    ASSERT_TRUE(round);
    pending = round->pending.size();
    // A host that stood still may have moved all of it in one round.
    if (round->schedules > 0 && pending == 0) run->change(next, MigrationPace::lazy);
  }
  EXPECT_THROW(runner.measure(options_for(LoadKind::closed)), RunnerError);  // it is in use
  const Measurement result = run->stop({});
  EXPECT_EQ(result.issued, result.executed);
  EXPECT_FALSE(run->running());
  EXPECT_THROW(run->stop({}), RunnerError);
  EXPECT_THROW(run->change(next, MigrationPace::lazy), RunnerError);
  const MeasureOptions after = options_for(LoadKind::closed);
  const Measurement again = runner.measure(after);
  expect_consistent(again, after);
  EXPECT_EQ(runner.index().size(), spec.records + result.inserted + again.inserted);
  EXPECT_EQ(keys_lost(spec, runner.next_insert_record()), 0U);
}

TEST_F(RunnerLive, AnErrorInAWorkerEndsTheRun) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  std::atomic<bool> broken{false};
  index_->look = [&](const Item&) {
    if (broken) throw std::runtime_error("the index is broken");
  };
  const auto run = runner.start(live_options());
  broken = true;  // the start itself would tell an earlier error
  try {
    while (run->next_round(long_enough, {})) {
    }
    ADD_FAILURE();
  } catch (const RunnerError& error) {
    EXPECT_NE(std::string(error.what()).find("the index is broken"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("worker"), std::string::npos);
  }
  EXPECT_FALSE(run->running());
  EXPECT_THROW(run->stop({}), RunnerError);
  // The runner is free again, and its index whole.
  broken = false;
  const MeasureOptions after = options_for(LoadKind::closed);
  expect_consistent(runner.measure(after), after);
}

TEST_F(RunnerLive, ARefusedScheduleLeavesTheRunAlone) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  const MeasureOptions options = live_options();
  const auto run = runner.start(options);
  Schedule wrong = options.schedule;
  wrong.cores.pop_back();
  EXPECT_THROW(run->change(wrong, MigrationPace::lazy), std::invalid_argument);
  wrong = options.schedule;
  wrong.cores[3] = 100'000;
  EXPECT_THROW(run->change(wrong, MigrationPace::lazy), std::invalid_argument);
  ASSERT_TRUE(run->next_round(long_enough, {}));
  EXPECT_EQ(run->stop({}).schedules, 0U);
}

TEST_F(RunnerLive, AChangeDoesNotWaitForThoseThatArePlannedForLater) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = live_options();
  options.changes = {{0.0, options.schedule, {}}, {1e6, options.schedule, {}}};
  const auto run = runner.start(options);
  run->change(options.schedule, MigrationPace::aggressive);
  std::optional<Round> round;
  do {
    round = run->next_round(long_enough, {});
    ASSERT_TRUE(round);
  } while (round->schedules < 2 || !round->pending.empty());
  EXPECT_EQ(run->stop({}).schedules, 2U);
}

TEST_F(RunnerLive, APollEndsIt) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  auto run = runner.start(live_options(10.0));
  EXPECT_THROW(run->next_round(long_enough, [] { return true; }), Cancelled);
  EXPECT_FALSE(run->running());
  run = runner.start(live_options());
  run->end();  // without stop()
  run->end();
  EXPECT_FALSE(run->running());
  EXPECT_THROW(run->stop({}), RunnerError);
  run = runner.start(live_options());
  run.reset();
  const MeasureOptions after = options_for(LoadKind::closed);
  expect_consistent(runner.measure(after), after);
}

TEST_F(RunnerLive, BadOptionsAreRefused) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = live_options(0.0);
  EXPECT_THROW(runner.start(options), std::invalid_argument);
  options = live_options(std::numeric_limits<double>::infinity());
  EXPECT_THROW(runner.start(options), std::invalid_argument);
  options = live_options();
  options.kept_rounds = 0;
  EXPECT_THROW(runner.start(options), std::invalid_argument);
  EXPECT_THROW(runner.measure(live_options()), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::runtime
