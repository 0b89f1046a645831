// Sweeping rounds: what workers count arrives, once, in the round in which it was counted.
#include "runtime/sweeping.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <memory_resource>
#include <numeric>
#include <thread>
#include <vector>

#include "numa/affinity.hpp"
#include "tests/runtime/small_runner.hpp"

namespace pmoss::runtime {
namespace {

/// A worker answers one query of the slice, and it sees a window of it.
void count_one(TallyExchange& tallies, std::size_t slice) {
  Tally& tally = tallies.current();
  ++tally.queries;
  ++tally.slices[slice].queries;
  tally.counters[slice] += 0.5;
  ++tally.sample.queries;
  tally.sample.counts[0] += 0.5;
  tally.ticks += 10;
}

TEST(RunnerSweeping, TalliesLoseNothingWhenTheirSweeperIsLate) {
  Control control;
  TallyExchange tallies(2, 1, 1, std::pmr::get_default_resource());
  for (int i = 0; i < 1'000; ++i) count_one(tallies, 0);
  EXPECT_FALSE(tallies.asked());
  tallies.ask();
  EXPECT_TRUE(tallies.asked());
  tallies.hand_over();
  EXPECT_FALSE(tallies.asked());
  count_one(tallies, 1);  // while the sweeper has the other one
  const Tally* taken = tallies.wait(control);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(taken->queries, 1'000U);
  EXPECT_EQ(taken->slices[0].queries, 1'000U);
  EXPECT_EQ(taken->slices[1].queries, 0U);
  EXPECT_EQ(taken->sample.counts[0], 500.0);
  EXPECT_EQ(tallies.total().queries, 1'001U);
  tallies.took(*taken);
  EXPECT_EQ(tallies.total().queries, 1'001U);
  tallies.ask();
  tallies.leave();  // no worker will answer
  taken = tallies.wait(control);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(taken->queries, 1U);
  tallies.took(*taken);
  const Tally total = tallies.total();
  EXPECT_EQ(total.queries, 1'001U);
  EXPECT_EQ(total.slices[1].queries, 1U);
  EXPECT_EQ(total.counters[0], 500.0);
  EXPECT_EQ(total.ticks, 10'010U);
}

TEST(RunnerSweeping, AnAbortedRunWaitsForNoWorker) {
  Control control;
  TallyExchange tallies(1, 1, 1, std::pmr::get_default_resource());
  tallies.ask();
  control.enter(Phase::abort);
  EXPECT_EQ(tallies.wait(control), nullptr);
}

TEST(RunnerSweeping, RoundsWithoutAnEndStopAfterThePhase) {
  Control control;
  Rounds rounds(std::numeric_limits<double>::infinity(), 1e-3);
  rounds.begin();
  control.enter(Phase::measuring);
  EXPECT_TRUE(rounds.wait(0, control));
  EXPECT_TRUE(rounds.wait(1, control));
  EXPECT_TRUE(rounds.wait(0, control));  // another sweeper, which is late
  control.enter(Phase::drain);
  // That of a sweeper that had ended round 1 before, and the late one's.
  EXPECT_TRUE(rounds.wait(2, control));
  EXPECT_FALSE(rounds.wait(3, control));
  EXPECT_TRUE(rounds.wait(1, control));
  EXPECT_TRUE(rounds.wait(2, control));
  EXPECT_FALSE(rounds.wait(3, control));
}

TEST(RunnerSweeping, RoundsFillTheMeasurement) {
  EXPECT_EQ(Rounds(1.0, 0.1).count(), 10U);
  EXPECT_EQ(Rounds(0.25, 0.1).count(), 2U);
  EXPECT_EQ(Rounds(0.05, 0.1).count(), 1U);
  EXPECT_EQ(Rounds(1.0, 0.0).count(), 0U);
  EXPECT_EQ(Rounds(3600.0, 1e-3).count(), 10'000U);
}

TEST(RunnerSweeping, ARoundIsStitchedWhenAllItsPartsAreThere) {
  Stitcher stitcher({0, 3});
  CoreSample sample;
  sample.queries = 40;
  sample.counts[0] = 7.0;
  stitcher.cores().push({0, 1, 50, 0.4, sample});
  stitcher.cores().push({1, 1, 60, 0.5, {}});
  stitcher.offcore().push({0, 0.5, {1e9}});
  stitcher.stitch();
  EXPECT_TRUE(stitcher.rounds().seconds.empty());  // node 0 is late
  stitcher.cores().push({0, 0, 10, 0.3, {}});
  stitcher.cores().push({1, 0, 20, 0.2, {}});
  stitcher.stitch();
  EXPECT_EQ(stitcher.rounds().queries, (std::vector<std::uint64_t>{10, 50}));
  stitcher.offcore().push({1, 1.0, {4e9}});
  stitcher.stitch();
  const StitchedRounds& rounds = stitcher.rounds();
  EXPECT_EQ(rounds.seconds, (std::vector<double>{0.5, 1.0}));
  EXPECT_EQ(rounds.queries, (std::vector<std::uint64_t>{10, 50, 20, 60}));
  EXPECT_EQ(rounds.node_seconds, (std::vector<double>{0.3, 0.4, 0.2, 0.5}));
  EXPECT_EQ(rounds.sampled, (std::vector<std::uint64_t>{0, 40, 0, 0}));
  EXPECT_EQ(rounds.counters[pmu::event_count], 7.0);
  EXPECT_EQ(rounds.offcore_gb_per_s, (std::vector<double>{2.0, 6.0}));
  const StitchedRounds news = stitcher.since(1);
  EXPECT_EQ(news.nodes, rounds.nodes);
  EXPECT_EQ(news.seconds, (std::vector<double>{1.0}));
  EXPECT_EQ(news.queries, (std::vector<std::uint64_t>{20, 60}));
  EXPECT_EQ(news.counters.size(), 2 * pmu::event_count);
  EXPECT_EQ(news.offcore_gb_per_s, (std::vector<double>{6.0}));
  EXPECT_TRUE(stitcher.since(2).seconds.empty());
  EXPECT_TRUE(Stitcher({0}).since(0).queries.empty());
}

TEST(RunnerSweeping, AMeasurementIsSweptAsASumOfItsRounds) {
  const auto made = small_runner(small_spec(0.5, 0, 0, 0.5));
  Runner& runner = *made;
  runner.load();
  MeasureOptions options = options_for(LoadKind::closed);
  options.sweep_seconds = options.seconds / 5;
  options.sweeper_cpus = {numa::allowed_cpus().front()};
  std::vector<double> told_seconds;
  std::vector<std::uint64_t> told_queries;
  options.on_rounds = [&](const StitchedRounds& news) {
    told_seconds.insert(told_seconds.end(), news.seconds.begin(), news.seconds.end());
    told_queries.insert(told_queries.end(), news.queries.begin(), news.queries.end());
  };
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  ASSERT_EQ(result.rounds.seconds.size(), 5U);
  EXPECT_EQ(told_seconds, result.rounds.seconds);
  EXPECT_EQ(told_queries, result.rounds.queries);
  EXPECT_FALSE(result.rounds.nodes.empty());
  for (std::size_t round = 1; round < 5; ++round) {
    EXPECT_GT(result.rounds.seconds[round], result.rounds.seconds[round - 1]);
  }
  const std::uint64_t swept = sum(result.rounds.queries);
  EXPECT_GT(swept, 0U);
  EXPECT_LE(swept, result.completed);
  EXPECT_LE(sum(result.rounds.sampled), swept + 100 * result.worker_cpus.size());
  const bool counts = result.availability[pmu::index_of(pmu::Event::task_clock)].available();
  if (counts) {
    EXPECT_GT(sum(result.rounds.sampled), 0U);
  }
  EXPECT_EQ(result.sweeper_cpus.size(), result.rounds.nodes.size() + 2);
  EXPECT_EQ(result.sweeper_cpus.front(), options.sweeper_cpus.front());

  options.sweep_seconds = 0.0;
  EXPECT_TRUE(runner.measure(options).rounds.seconds.empty());
  options.sweep_seconds = -1.0;
  EXPECT_THROW(runner.measure(options), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::runtime
