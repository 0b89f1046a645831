#include "environment/batch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "analytic/btree_profile.hpp"
#include "analytic/model.hpp"
#include "tests/analytic/small_workload.hpp"
#include "tests/machine/small_machine.hpp"

namespace pmoss::environment {
namespace {

// Three tiles, the first without a core; two slices in two counters.
Task small_task() {
  Task task;
  task.slices = 2;
  task.counters = 2;
  task.meta = 1;
  task.columns = 3;
  task.core_of_tile = {-1, 0, 1};
  task.node_of_core = {0, 1};
  task.socket_of_node = {0, 0};
  task.worker_tiles = {0, 1, 1};
  return task;
}

// A schedule's throughput spells out its cores, so that a test sees what was asked.
class Spelling : public ThroughputSource {
 public:
  Snapshot open(const Opening& opening) override {
    Snapshot snapshot;
    snapshot.throughput = place(opening.cores, opening.nodes);
    return snapshot;
  }
  void prepare(const Opening&) override { throw std::logic_error("nothing to prepare"); }
  Snapshot take() override { throw std::logic_error("nothing to take"); }
  double place(std::span<const std::int32_t> cores, std::span<const std::int32_t>) override {
    cores_.assign(cores.begin(), cores.end());
    return value();
  }
  double move(int slice, int core, int node) override {
    if (core != node) throw std::logic_error("the node of a core has its number here");
    cores_[static_cast<std::size_t>(slice)] = core;
    return value();
  }

 private:
  double value() const {
    double sum = 0.0;
    for (const int core : cores_) sum = 10 * sum + core + 1;
    return sum;
  }
  std::vector<std::int32_t> cores_{0, 0};
};

struct Arrays {
  explicit Arrays(std::size_t n) : masks(3 * n), positions(3 * n), rewards(n), throughput(n) {
    for (auto* counts : {&illegal, &slice, &tile, &node}) counts->assign(n, -7);
    machine.assign(6 * n, -1.0F);
    incumbent.assign(6 * n, -1.0F);
    view.assign(2 * n, -1.0F);
    meta.assign(n, -1.0F);
    share.assign(n, -1.0F);
    ended = std::make_unique<bool[]>(n);
  }
  Observations observations() {
    return {masks.data(), positions.data(), machine.data(),  meta.data(),
            share.data(), view.data(),      incumbent.data()};
  }
  Results results() {
    return {rewards.data(), ended.get(), throughput.data(), illegal.data(),
            slice.data(),   tile.data(), node.data()};
  }
  std::vector<std::int8_t> masks, positions;
  std::vector<float> machine, meta, share, view, incumbent;
  std::vector<double> rewards, throughput;
  std::vector<std::int64_t> illegal, slice, tile, node;
  std::unique_ptr<bool[]> ended;
};

std::vector<std::unique_ptr<ThroughputSource>> sources(std::size_t n) {
  std::vector<std::unique_ptr<ThroughputSource>> result;
  for (std::size_t i = 0; i < n; ++i) result.push_back(std::make_unique<Spelling>());
  return result;
}

constexpr std::array<float, 4> counters{1.0F, 2.0F, 3.0F, 4.0F};
constexpr std::array<float, 1> meta{9.0F};
constexpr std::array<std::int32_t, 2> backwards{1, 0};
constexpr std::array<std::int32_t, 2> on_first{0, 0};
constexpr std::array<double, 2> readings{2.0, 1.0};

Start small_start() {
  Start start;
  start.counters = counters;
  start.meta = meta;
  start.order = backwards;
  start.cores = start.nodes = on_first;
  start.readings = readings;
  start.throughput = 11.0;
  return start;
}

void step(Batch& batch, std::vector<std::int64_t> actions, const Observations* copy = nullptr) {
  const auto resting = std::make_unique<bool[]>(actions.size());
  batch.step(actions, {resting.get(), actions.size()}, copy);
}

TEST(Batch, AnEpisodeByHand) {
  Arrays now(1), copied(1);
  Batch batch(Rules(small_task()), sources(1), now.observations(), now.results(), 1);
  batch.start(0, small_start());
  EXPECT_EQ(now.masks, (std::vector<std::int8_t>{0, 0, 0}));
  EXPECT_EQ(now.positions, (std::vector<std::int8_t>{0, 1, 1}));
  EXPECT_EQ(now.view, (std::vector<float>{3, 4}));  // slice 1 comes first
  EXPECT_EQ(now.share[0], 0.5F);
  EXPECT_EQ(now.meta[0], 9.0F);
  EXPECT_EQ(now.incumbent, (std::vector<float>{0, 0, 4, 6, 0, 0}));
  EXPECT_EQ(now.tile[0], -1);

  const Observations to = copied.observations();
  step(batch, {2}, &to);
  EXPECT_EQ(now.machine, (std::vector<float>{0, 0, 0, 0, 3, 4}));
  EXPECT_EQ(now.masks, (std::vector<std::int8_t>{0, 0, 1}));
  EXPECT_EQ(now.throughput[0], 24.0);  // cores 1 and 2 read as 12, times the reading's 2
  EXPECT_EQ(now.rewards[0], 13.0);
  EXPECT_EQ(now.slice[0], 0);
  EXPECT_EQ(now.tile[0], 2);
  EXPECT_FALSE(now.ended[0]);
  EXPECT_EQ(copied.machine, now.machine);
  EXPECT_EQ(copied.masks, now.masks);
  EXPECT_EQ(copied.positions, now.positions);
  EXPECT_EQ(copied.incumbent, now.incumbent);
  EXPECT_EQ(copied.view, now.view);
  EXPECT_EQ(copied.meta, now.meta);
  EXPECT_EQ(copied.share, now.share);

  step(batch, {0});  // no core: the nearest worker is tile 1
  EXPECT_EQ(now.illegal[0], 1);
  EXPECT_EQ(now.tile[0], 1);
  EXPECT_TRUE(now.ended[0]);
  EXPECT_EQ(now.rewards[0], -12.0);
  EXPECT_EQ(now.throughput[0], 12.0);  // cores 0 and 1
  batch.read(0, 99.0);                 // read already
  EXPECT_EQ(now.throughput[0], 12.0);
  EXPECT_EQ(now.slice[0], 2);
  EXPECT_EQ(now.share[0], 1.0F);
  EXPECT_EQ(now.view, (std::vector<float>{0, 0}));
  const auto placed = batch.placed(0);
  EXPECT_EQ(std::vector<int>(placed.begin(), placed.end()), (std::vector<int>{2, 1}));
  EXPECT_EQ(copied.masks, (std::vector<std::int8_t>{0, 0, 1})) << "copies stay as they were";
  EXPECT_THROW(step(batch, {1}), std::invalid_argument);
}

TEST(Batch, SeldomAskedItPlacesTheWholeSchedule) {
  Task task = small_task();
  task.slices = 3;
  task.measure_every = 2;
  task.reward = Reward::terminal;
  task.detail = Detail::paper;
  const std::array<float, 6> three{1, 2, 3, 4, 5, 6};
  const std::array<std::int32_t, 3> order{0, 1, 2}, cores{0, 0, 0};
  const std::array<double, 3> exact{1.0, 1.0, 1.0};
  Start start = small_start();
  start.counters = three;
  start.order = order;
  start.cores = start.nodes = cores;
  start.readings = exact;
  Arrays now(1);
  Observations observations = now.observations();
  observations.slice_view = observations.incumbent_view = nullptr;
  Batch batch(Rules(task), sources(1), observations, now.results(), 1);
  batch.start(0, start);
  step(batch, {2});
  EXPECT_EQ(now.throughput[0], 11.0);
  step(batch, {1});
  EXPECT_EQ(now.throughput[0], 211.0);
  EXPECT_EQ(now.rewards[0], 0.0);
  step(batch, {2});
  EXPECT_TRUE(now.ended[0]);
  EXPECT_EQ(now.rewards[0], 212.0);
}

TEST(Batch, AMaskedActionMayEndTheEpisode) {
  Task task = small_task();
  task.remaps = false;
  task.max_slices_per_core = 1;
  Arrays now(1);
  Batch batch(Rules(task), sources(1), now.observations(), now.results(), 1);
  batch.start(0, small_start());
  step(batch, {1});
  EXPECT_EQ(now.positions, (std::vector<std::int8_t>{0, 0, 1}));
  step(batch, {1});
  EXPECT_TRUE(now.ended[0]);
  EXPECT_EQ(now.illegal[0], 1);
  EXPECT_EQ(batch.placed(0).size(), 1U);
  EXPECT_EQ(now.slice[0], 0);
}

TEST(Batch, WithoutASourceReadingsAreTaken) {
  Task task = small_task();
  task.slices = 3;
  task.measure_every = 2;
  const std::array<float, 6> three{1, 2, 3, 4, 5, 6};
  const std::array<std::int32_t, 3> order{0, 1, 2}, cores{0, 0, 0};
  const std::array<double, 3> doubled{1.0, 2.0, 0.5};
  Start start = small_start();
  start.counters = three;
  start.order = order;
  start.cores = start.nodes = cores;
  start.readings = doubled;
  Arrays now(1);
  std::vector<std::unique_ptr<ThroughputSource>> none(1);
  Batch batch(Rules(task), std::move(none), now.observations(), now.results(), 1);
  batch.start(0, start);
  batch.read(0, 99.0);  // nothing is placed yet
  EXPECT_EQ(now.throughput[0], 11.0);
  EXPECT_FALSE(batch.step_one(0, 2));
  EXPECT_TRUE(batch.step_one(0, 1));
  EXPECT_EQ(std::vector<int>(batch.cores(0).begin(), batch.cores(0).end()),
            (std::vector<int>{1, 0, 0}));
  batch.read(0, 8.0);
  EXPECT_EQ(now.throughput[0], 16.0);
  EXPECT_EQ(now.rewards[0], 5.0);
  batch.read(0, 99.0);  // read already
  EXPECT_EQ(now.throughput[0], 16.0);
  EXPECT_TRUE(batch.step_one(0, 1));
  EXPECT_TRUE(now.ended[0]);
  EXPECT_EQ(now.rewards[0], 0.0);
  batch.read(0, 40.0);
  EXPECT_EQ(now.rewards[0], 4.0);
  EXPECT_THROW(batch.step_one(0, 1), std::invalid_argument);
}

TEST(Batch, IncumbentsAreMeasuredInOrderByAnyNumberOfThreads) {
  const std::array<std::int32_t, 2> first{0, 1}, second{1, 0};
  for (const int threads : {1, 2, 5}) {
    Arrays now(4);
    Batch batch(Rules(small_task()), sources(4), now.observations(), now.results(), threads);
    const std::array<Opening, 3> openings{{{3, {}, nullptr, first, first},
                                           {0, {}, nullptr, second, second},
                                           {2, {}, nullptr, on_first, on_first}}};
    const std::vector<Snapshot> measured = batch.open(openings);
    ASSERT_EQ(measured.size(), 3U);
    EXPECT_EQ(measured[0].throughput, 12.0);
    EXPECT_EQ(measured[1].throughput, 21.0);
    EXPECT_EQ(measured[2].throughput, 11.0);
    EXPECT_TRUE(batch.open({}).empty());
  }
}

/// Two models of its own that take turns.
class Modelled : public ThroughputSource {
 public:
  Snapshot open(const Opening& opening) override { return environment::open(*model_, opening); }
  void prepare(const Opening& opening) override { prepared_ = environment::open(*next_, opening); }
  Snapshot take() override {
    std::swap(model_, next_);
    return prepared_;
  }
  double place(std::span<const std::int32_t> cores, std::span<const std::int32_t> nodes) override {
    return model_->place({cores, nodes});
  }
  double move(int slice, int core, int node) override { return model_->move(slice, core, node); }

 private:
  static std::unique_ptr<analytic::Model> make() {
    const pmoss::Load load{pmoss::Load::Kind::closed, 32, 5.0};
    return std::make_unique<analytic::Model>(small_machine(), load);
  }
  std::unique_ptr<analytic::Model> model_ = make(), next_ = make();
  Snapshot prepared_;
};

TEST(Batch, ThreadsChangeNoBitOfWhatModelsMeasure) {
  constexpr std::size_t rows = 6;
  constexpr int slices = 16;
  const analytic::BTreeProfiler profiler(analytic::lookups_and_inserts(1'000'000), slices);
  const std::vector<std::int32_t> cores{0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0};
  std::vector<std::int32_t> nodes;
  for (const std::int32_t core : cores) {
    nodes.push_back(small_machine().node_of_core[static_cast<std::size_t>(core)]);
  }
  Interference busy;
  busy.busy_share = {0.5, 0, 0, 0, 0, 0, 0, 0};
  const Interference quiet;
  std::vector<std::vector<double>> measured;
  for (const int threads : {1, 4}) {
    Arrays now(rows);
    std::vector<std::unique_ptr<ThroughputSource>> models;
    for (std::size_t i = 0; i < rows; ++i) models.push_back(std::make_unique<Modelled>());
    Batch batch(Rules(small_task()), std::move(models), now.observations(), now.results(), threads);
    auto& throughput = measured.emplace_back();
    // A new instance, then other co-tenants of it, then all as it is.
    for (const Interference* const taken : std::array<const Interference*, 3>{&quiet, &busy}) {
      std::vector<Opening> openings;
      for (std::size_t i = 0; i < rows; ++i) {
        Opening opening{i, {}, taken, cores, nodes};
        if (taken == &quiet) opening.profiles = [&, i] { return profiler.profiles(i); };
        openings.push_back(opening);
      }
      for (const Snapshot& snapshot : batch.open(openings)) {
        throughput.push_back(snapshot.throughput);
        for (const SliceRates& rates : snapshot.slices) throughput.push_back(rates.llc_misses);
      }
    }
    EXPECT_NE(throughput[0], throughput[1 + slices]) << "instances differ";
    EXPECT_GT(throughput[0], throughput[rows * (1 + slices)]) << "co-tenants take";
    EXPECT_EQ(throughput[rows * (1 + slices)], throughput[2 * rows * (1 + slices)]);
  }
  EXPECT_EQ(measured[0], measured[1]);
}

TEST(Batch, WhatIsPreparedMeanwhileIsWhatWouldBeMeasuredThen) {
  constexpr std::size_t rows = 5;
  constexpr int slices = 16;
  const analytic::BTreeProfiler profiler(analytic::lookups_and_inserts(1'000'000), slices);
  const auto places = std::make_shared<std::vector<std::int32_t>>(slices, 0);
  const auto quiet = std::make_shared<Interference>();
  Task task = small_task();
  task.slices = slices;
  std::vector<std::vector<double>> measured;
  for (const int threads : {1, 2, 4}) {
    Arrays now(rows);
    std::vector<std::unique_ptr<ThroughputSource>> models;
    for (std::size_t i = 0; i < rows; ++i) models.push_back(std::make_unique<Modelled>());
    Batch batch(Rules(task), std::move(models), now.observations(), now.results(), threads);
    auto& throughput = measured.emplace_back();
    for (std::uint64_t episode = 0; episode < 6; ++episode) {
      const auto openings_of = [&](std::uint64_t seed, bool prepared) {
        std::vector<Opening> openings;
        for (std::size_t i = 0; i < rows; ++i) {
          const auto profiles = [&profiler, seed, i] { return profiler.profiles(7 * seed + i); };
          openings.push_back({i, profiles, quiet.get(), *places, *places, prepared, places});
        }
        return openings;
      };
      // The first is not prepared, the fourth is another than what was.
      for (const Snapshot& snapshot : batch.open(openings_of(episode, episode % 3 != 0))) {
        throughput.push_back(snapshot.throughput);
        for (const SliceRates& rates : snapshot.slices) throughput.push_back(rates.llc_misses);
      }
      Start start = small_start();
      const std::vector<float> counters(2 * slices, 0.0F);
      std::vector<std::int32_t> order(slices);
      std::iota(order.begin(), order.end(), 0);
      const std::vector<double> readings(slices, 1.0);
      start.counters = counters;
      start.order = order;
      start.cores = start.nodes = *places;
      start.readings = readings;
      for (std::size_t i = 0; i < rows; ++i) batch.start(i, start);
      batch.prepare(openings_of(episode == 2 ? 99 : episode + 1, false));
      const std::vector<std::int64_t> actions(rows, 2);
      for (int step = 0; step < slices; ++step) {
        batch.step(actions, std::array<bool, rows>{}, nullptr);
        throughput.insert(throughput.end(), now.throughput.begin(), now.throughput.end());
      }
    }
  }
  EXPECT_EQ(measured[0], measured[1]);
  EXPECT_EQ(measured[0], measured[2]);
}

TEST(Batch, WhatCannotBePreparedIsSaidWhereItIsOpened) {
  Arrays now(2);
  Batch batch(Rules(small_task()), sources(2), now.observations(), now.results(), 2);
  const auto owned = std::make_shared<Interference>();
  const auto none = [] { return analytic::SliceProfiles{}; };
  const Opening usual{1, none, owned.get(), on_first, on_first, true, owned};
  Opening without = usual;
  without.owned = nullptr;
  EXPECT_THROW(batch.prepare({without}), std::invalid_argument);
  EXPECT_THROW(batch.prepare({usual, usual}), std::invalid_argument);
  batch.prepare({usual});
  try {
    // Where no thread had begun it, it is measured now.
    EXPECT_EQ(batch.open(std::array{usual}).front().throughput, 11.0);
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "nothing to prepare");
  }
  EXPECT_EQ(batch.open(std::array{usual}).front().throughput, 11.0);
}

TEST(Batch, OpensOnlyRowsWithAModelAndEachOnce) {
  Arrays now(2);
  std::vector<std::unique_ptr<ThroughputSource>> one = sources(1);
  one.emplace_back();
  Batch batch(Rules(small_task()), std::move(one), now.observations(), now.results(), 2);
  const Opening usual{0, {}, nullptr, on_first, on_first};
  Opening without = usual, outside = usual;
  without.environment = 1;
  outside.environment = 2;
  EXPECT_THROW(batch.open(std::array{usual, usual}), std::invalid_argument);
  EXPECT_THROW(batch.open(std::array{without}), std::invalid_argument);
  EXPECT_THROW(batch.open(std::array{outside}), std::invalid_argument);
  EXPECT_EQ(batch.open(std::array{usual}).front().throughput, 11.0);
}

TEST(Batch, TheRestingStayAndThreadsChangeNothing) {
  constexpr std::size_t n = 7;
  Arrays serial(n), threaded(n);
  Batch alone(Rules(small_task()), sources(n), serial.observations(), serial.results(), 1);
  Batch shared(Rules(small_task()), sources(n), threaded.observations(), threaded.results(), 3);
  std::vector<std::int64_t> actions(n);
  std::iota(actions.begin(), actions.end(), 0);
  for (auto& action : actions) action %= 3;
  for (Batch* batch : {&alone, &shared}) {
    for (std::size_t i = 0; i < n; ++i) batch->start(i, small_start());
    std::array<bool, n> resting{};
    resting[4] = true;
    batch->step(actions, resting, nullptr);
    EXPECT_EQ(batch->placed(4).size(), 0U);
    EXPECT_EQ(batch->placed(5).size(), 1U);
  }
  EXPECT_EQ(serial.tile[4], -1);
  EXPECT_EQ(serial.rewards[4], 0.0);
  EXPECT_EQ(serial.machine, threaded.machine);
  EXPECT_EQ(serial.rewards, threaded.rewards);
  EXPECT_EQ(serial.illegal, threaded.illegal);
}

TEST(Batch, EveryStepCopiesAllRows) {
  constexpr std::size_t n = 21;  // several groups, the last one smaller
  Arrays now(n), copy(n);
  Batch batch(Rules(small_task()), sources(n), now.observations(), now.results(), 1);
  for (std::size_t i = 0; i < n; ++i) batch.start(i, small_start());
  const auto action_of = [](std::size_t step, std::size_t i) { return 1 + ((i + step) % 3 == 0); };
  for (const std::size_t count : {1U, 2U}) {
    std::vector<std::int64_t> actions(n);
    for (std::size_t i = 0; i < n; ++i) actions[i] = action_of(count, i);
    const Observations to = copy.observations();
    step(batch, actions, &to);
    EXPECT_EQ(copy.masks, now.masks);
    EXPECT_EQ(copy.positions, now.positions);
    EXPECT_EQ(copy.machine, now.machine);
    EXPECT_EQ(copy.incumbent, now.incumbent);
    EXPECT_EQ(copy.meta, now.meta);
    EXPECT_EQ(copy.share, now.share);
    EXPECT_EQ(copy.view, now.view);
    for (std::size_t i = 0; i < n; ++i) {
      Arrays alike(1);
      Batch single(Rules(small_task()), sources(1), alike.observations(), alike.results(), 1);
      single.start(0, small_start());
      for (std::size_t at = 1; at <= count; ++at) step(single, {action_of(at, i)});
      EXPECT_TRUE(std::equal(alike.machine.begin(), alike.machine.end(), &now.machine[6 * i]));
      EXPECT_EQ(alike.rewards[0], now.rewards[i]);
    }
  }
}

TEST(Batch, RefusesWhatCannotBeAndChangesNothing) {
  Arrays now(2);
  Batch batch(Rules(small_task()), sources(2), now.observations(), now.results(), 1);
  EXPECT_THROW(step(batch, {1, 1}), std::invalid_argument) << "nothing runs yet";
  batch.start(0, small_start());
  batch.start(1, small_start());
  for (const std::vector<std::int64_t>& actions :
       {std::vector<std::int64_t>{1, 3}, {1, -1}, {1}, {1, 1, 1}}) {
    EXPECT_THROW(step(batch, actions), std::invalid_argument);
  }
  EXPECT_EQ(batch.placed(0).size(), 0U);
  Start twice = small_start();
  twice.order = on_first;
  EXPECT_THROW(batch.start(0, twice), std::invalid_argument);
  Start shorter = small_start();
  shorter.readings = std::span(readings).first(1);
  EXPECT_THROW(batch.start(0, shorter), std::invalid_argument);
  EXPECT_THROW(batch.start(2, small_start()), std::invalid_argument);
}

TEST(Batch, RefusesAnImpossibleTask) {
  const auto refused = [](auto spoil, std::size_t n = 1, int threads = 1) {
    Task task = small_task();
    spoil(task);
    Arrays now(1);
    EXPECT_THROW(Batch(Rules(task), sources(n), now.observations(), now.results(), threads),
                 std::invalid_argument);
  };
  refused([](Task& task) { task.slices = 0; });
  refused([](Task& task) { task.measure_every = 0; });
  refused([](Task& task) { task.worker_tiles = {0, 1}; });
  refused([](Task& task) { task.worker_tiles = {0, 0, 0}; });
  refused([](Task& task) { task.worker_tiles = {1, 1, 1}; });
  refused([](Task& task) { task.core_of_tile[2] = 2; });
  refused([](Task& task) { task.node_of_core[1] = 2; });
  refused([](Task& task) { task.columns = 0; });
  refused([](Task& task) {
    task.slices = 3;
    task.max_slices_per_core = 1;
  });
  refused([](Task&) {}, 0);
  refused([](Task&) {}, 1, 0);
}

}  // namespace
}  // namespace pmoss::environment
