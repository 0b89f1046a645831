// An index that runs: closed forms of its copies, and epochs in which nothing changes.
#include "environment/running.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "analytic/btree_profile.hpp"
#include "analytic/model.hpp"
#include "machine/loaded_latency.hpp"
#include "tests/analytic/small_workload.hpp"
#include "tests/machine/small_machine.hpp"

namespace pmoss::environment {
namespace {

constexpr int slices = 16;
constexpr double slice_bytes = 4e8;
/// Slow enough that no memory or link of the machine is the limit.
constexpr double copied_gb_per_s = 0.5;

class ARunningIndex : public ::testing::Test {
 protected:
  ARunningIndex()
      : model_(small_machine(), {pmoss::Load::Kind::closed, 32, 5.0}),
        index_(small_machine(), std::vector<double>(slices, slice_bytes), copied_gb_per_s) {}

  void begin(int shift = 0) {
    const std::vector<std::int32_t> cores(slices, 0);
    index_.begin(
        model_,
        {analytic::BTreeProfiler(analytic::lookups_and_inserts(1'000'000), slices).profiles(1)},
        {{}, {shift}}, cores);
  }
  Epoch run(double seconds, double limit_us = 0.0) {
    return index_.run(model_, {}, seconds, limit_us);
  }

  analytic::Model model_;
  RunningIndex index_;
};

TEST_F(ARunningIndex, ServesTheSameInEveryEpochWhereNothingChanges) {
  begin();
  const Epoch first = run(1.0);
  const Epoch second = run(1.0);
  EXPECT_EQ(first.queries, second.queries);
  EXPECT_EQ(first.moved_bytes, 0.0);
  ASSERT_EQ(second.pieces.size(), 1U);
  EXPECT_DOUBLE_EQ(second.queries, second.pieces[0].throughput);
  // Twice the time, twice the queries.
  EXPECT_DOUBLE_EQ(run(2.0).queries, 2.0 * first.queries);
}

TEST_F(ARunningIndex, CopiesTakeBytesOverBandwidthOneAfterTheOther) {
  begin();
  const std::int32_t far = 6;  // on another node
  index_.move(3, far);
  index_.move(7, far);
  EXPECT_EQ(index_.copies(), 2U);
  EXPECT_EQ(index_.cores()[3], far);
  const std::int32_t from = index_.nodes()[3];
  constexpr double each = slice_bytes / (copied_gb_per_s * 1e9);  // 0.8 s
  const Epoch epoch = run(1.0);
  EXPECT_DOUBLE_EQ(epoch.moved_bytes, copied_gb_per_s * 1e9);
  EXPECT_EQ(index_.copies(), 1U);
  EXPECT_NE(index_.nodes()[3], from);
  EXPECT_EQ(index_.nodes()[7], from);
  EXPECT_EQ(index_.pending()[3], 0.0);
  EXPECT_NEAR(index_.pending()[7], 1.0 - (1.0 - each) / each, 1e-12);
  ASSERT_EQ(epoch.pieces.size(), 2U);
  EXPECT_DOUBLE_EQ(epoch.pieces[0].seconds, each);
  EXPECT_NEAR(epoch.pieces[1].seconds, 1.0 - each, 1e-12);
  double served = 0.0;
  for (const Piece& piece : epoch.pieces) served += piece.seconds * piece.throughput;
  EXPECT_NEAR(epoch.queries, served, 1e-9 * served);
  const Epoch rest = run(1.0);
  EXPECT_NEAR(rest.moved_bytes, 2.0 * slice_bytes - copied_gb_per_s * 1e9, 1.0);
  EXPECT_EQ(index_.copies(), 0U);
  EXPECT_EQ(std::accumulate(index_.pending().begin(), index_.pending().end(), 0.0), 0.0);
}

// As many lines as the processor fetches ahead wait for a latency to which they add themselves.
TEST(ACopyOfAnIndexThatRuns, WaitsForTheLatencyUnderItsOwnLoad) {
  for (const auto kind : {pmoss::Load::Kind::open, pmoss::Load::Kind::closed}) {
    const Machine machine = small_machine();
    analytic::Model model(machine, {kind, 32, 1e-9});
    RunningIndex index(machine, std::vector<double>(slices, slice_bytes), 0.0);
    const std::vector<std::int32_t> cores(slices, 0);
    index.begin(
        model,
        {analytic::BTreeProfiler(analytic::lookups_and_inserts(1'000'000), slices).profiles(1)}, {},
        cores);
    index.move(3, 6);  // over the link to the other socket
    const Epoch epoch = index.run(model, {}, 100.0, 0.0);
    const double rate = slice_bytes / epoch.pieces[0].seconds * 1e-9;
    const double memory = LoadedLatency(machine.dram_curve).at(rate / 40.0);
    const double link = LoadedLatency(machine.link_curve).at(rate / 20.0);
    const double wanted = 64.0 * 4.0 / (150.0 * memory * link);
    if (kind == pmoss::Load::Kind::open) {
      EXPECT_NEAR(rate, wanted, 1e-6 * wanted);
    } else {
      EXPECT_LT(rate, wanted);  // queries are in its way
    }
  }
}

TEST_F(ARunningIndex, CopiesNothingWithinANodeAndTakesAMoveBack) {
  begin();
  index_.move(0, 1);  // the other core of the node
  EXPECT_EQ(index_.copies(), 0U);
  index_.move(1, 6);
  index_.move(1, 0);
  EXPECT_EQ(index_.copies(), 0U);
  EXPECT_EQ(run(1.0).moved_bytes, 0.0);
}

TEST_F(ARunningIndex, CountsWithinALimitWhatIsAnsweredByThen) {
  begin();
  const double all = run(1.0).queries;
  EXPECT_EQ(run(1.0, 1e9).within, all);
  const double latency_us = run(1.0, 1e9).snapshot.latency_p99_us;
  const Epoch limited = run(1.0, 0.5 * latency_us);
  EXPECT_LT(limited.within, limited.queries);
}

// An epoch of another mix has the bits of an index that gets nothing else.
TEST_F(ARunningIndex, ServesAnotherMixAsAnIndexThatGetsItAlone) {
  const std::vector<std::int32_t> cores(slices, 0);
  WorkloadSpec scans = analytic::lookups_and_inserts(1'000'000);
  scans.lookup = scans.insert = 0.0;
  scans.scan = 1.0;
  const auto day =
      analytic::BTreeProfiler(analytic::lookups_and_inserts(1'000'000), slices).profiles(1);
  const auto night = analytic::BTreeProfiler(scans, slices).profiles(1);
  index_.begin(model_, {day}, {}, cores);
  const Epoch by_day = run(1.0);
  index_.begin(model_, {night}, {}, cores);
  const Epoch by_night = run(1.0);
  EXPECT_LT(by_night.queries, by_day.queries);
  index_.begin(model_, {day, night}, {}, cores);
  EXPECT_EQ(run(1.0).queries, by_day.queries);
  EXPECT_EQ(index_.run(model_, {{}, {0, 1.0, 1}}, 1.0, 0.0).queries, by_night.queries);
  EXPECT_EQ(run(1.0).queries, by_day.queries);
  EXPECT_THROW(index_.run(model_, {{}, {0, 1.0, 2}}, 1.0, 0.0), std::invalid_argument);
  EXPECT_THROW(index_.begin(model_, {day}, {{}, {0, 1.0, 1}}, cores), std::invalid_argument);
  EXPECT_EQ(index_.run(model_, {{}, {0, 1.0, 1}}, 1.0, 0.0).queries, by_night.queries);
  EXPECT_THROW(index_.begin(model_, {}, {}, cores), std::invalid_argument);
}

TEST_F(ARunningIndex, ServesTheShareOfAnOpenLoadThatArrives) {
  begin();
  const double saturated = run(1.0).queries;
  EXPECT_THROW(index_.run(model_, {{}, {0, 0.5, 0}}, 1.0, 0.0), std::invalid_argument);
  EXPECT_EQ(run(1.0).queries, saturated);
  analytic::Model open(small_machine(), {pmoss::Load::Kind::open, 32, 0.8 * saturated});
  const std::vector<std::int32_t> cores(slices, 0);
  index_.begin(
      open, {analytic::BTreeProfiler(analytic::lookups_and_inserts(1'000'000), slices).profiles(1)},
      {}, cores);
  for (const double share : {0.5, 1.0, 0.25}) {
    const Epoch epoch = index_.run(open, {{}, {0, share, 0}}, 2.0, 0.0);
    EXPECT_NEAR(epoch.queries, 2.0 * share * 0.8 * saturated, 1e-3 * saturated);
  }
  EXPECT_NEAR(index_.run(open, {{}, {0, 2.0, 0}}, 1.0, 0.0).queries, saturated, 1e-3 * saturated);
  EXPECT_THROW(index_.run(open, {{}, {0, 0.0, 0}}, 1.0, 0.0), std::invalid_argument);
}

TEST_F(ARunningIndex, RefusesWhatIsNotThere) {
  EXPECT_THROW(run(1.0), std::invalid_argument);
  begin();
  EXPECT_THROW(index_.move(slices, 0), std::invalid_argument);
  EXPECT_THROW(index_.move(-1, 0), std::invalid_argument);
  EXPECT_THROW(index_.move(0, 8), std::invalid_argument);
  EXPECT_THROW(run(0.0), std::invalid_argument);
}

TEST_F(ARunningIndex, RunsAnEpochThatHasFailedAgain) {
  constexpr double seconds = 1.0;  // in which one of two copies arrives
  begin();
  index_.move(3, 6);
  index_.move(7, 6);
  const Epoch wanted = run(seconds);
  begin();
  index_.move(3, 6);
  index_.move(7, 6);
  Interference impossible;
  impossible.busy_share.assign(8, 2.0);
  EXPECT_THROW(index_.run(model_, {impossible, {2}}, seconds, 0.0), std::invalid_argument);
  // It has no schedule: that is found out when the copies have been planned.
  analytic::Model other(small_machine(), {pmoss::Load::Kind::closed, 32, 5.0});
  EXPECT_THROW(index_.run(other, {}, seconds, 0.0), std::invalid_argument);
  EXPECT_EQ(index_.copies(), 2U);
  EXPECT_EQ(index_.pending()[3], 1.0);
  EXPECT_EQ(index_.shift(), 0);
  const Epoch epoch = run(seconds);
  EXPECT_EQ(epoch.moved_bytes, wanted.moved_bytes);
  EXPECT_DOUBLE_EQ(epoch.queries, wanted.queries);
  EXPECT_EQ(index_.copies(), 1U);
}

TEST_F(ARunningIndex, GoesOnAfterABeginThatWasRefused) {
  begin();
  Interference impossible;
  impossible.dram_gb_per_s = {-1.0};
  const std::vector<std::int32_t> cores(slices, 0);
  const analytic::BTreeProfiler profiler(analytic::lookups_and_inserts(1'000'000), slices);
  EXPECT_THROW(index_.begin(model_, {profiler.profiles(1)}, {impossible, {}}, cores),
               std::invalid_argument);
  EXPECT_GT(run(1.0).queries, 0.0);  // the one before goes on
}

}  // namespace
}  // namespace pmoss::environment
