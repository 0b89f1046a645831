#include "runtime/router.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <vector>

#include "kinds/served_btree.hpp"
#include "runtime/clock.hpp"
#include "tests/runtime/small_runner.hpp"
#include "workload/arrivals.hpp"

namespace pmoss::runtime {
namespace {

constexpr double rate_mqs = 50.0;
constexpr std::uint64_t arrivals_seed = 9;
constexpr std::uint64_t first_tick = 1000;

/// Router `number` of `routers` of an open load, and the queue of its only worker.
class OpenRouter {
 public:
  OpenRouter(std::size_t number, std::size_t routers, std::size_t room)
      : index_(kinds::kind_named("btree").serve(small_spec(1, 0, 0, 0), {slices, false, {}})),
        board_(routes()),
        ring(room),
        router(settings(number, routers), *index_, arrivals_seed, 20'000, board_,
               *std::pmr::get_default_resource()) {
    control.enter(Phase::measuring);
    router.begin_at(first_tick);
    router.connect({&ring});
  }

 private:
  static Routes routes() {
    Routes all;
    for (std::uint32_t slice = 0; slice <= slices; ++slice) all.first.push_back(slice);
    all.workers.assign(slices, 0);
    return all;
  }
  static Router::Settings settings(std::size_t number, std::size_t routers) {
    Router::Settings settings;
    settings.number = number;
    settings.routers = routers;
    settings.load = LoadKind::open;
    settings.rate_mqs = rate_mqs;
    settings.origin = Clock::ticks();
    return settings;
  }

  std::unique_ptr<ServedIndex> index_;
  RouteBoard board_;

 public:
  Control control;
  Ring ring;
  Router router;
};

/// The planned arrivals, in ticks, of router `number` of `routers`.
std::vector<std::uint64_t> stamps_of(std::size_t number, std::size_t routers,
                                     std::size_t arrivals) {
  OpenRouter open(number, routers, arrivals);
  while (open.ring.in_flight() < arrivals) open.router.step(open.control);
  open.ring.readable(arrivals);
  std::vector<std::uint64_t> stamps;
  for (std::size_t i = 0; i < arrivals; ++i) stamps.push_back(open.ring.front(i).stamp());
  return stamps;
}

TEST(Router, ASingleOneSendsTheArrivalsThatTheSimulatorDrawsForTheSeed) {
  constexpr std::size_t arrivals = 100;
  const std::vector<std::uint64_t> stamps = stamps_of(0, 1, arrivals);
  PoissonArrivals expected(rate_mqs, arrivals_seed);
  double ticks = static_cast<double>(first_tick);
  for (std::size_t i = 0; i < arrivals; ++i) {
    ticks += expected.next_gap_ns() / Clock::ns_per_tick();
    EXPECT_EQ(stamps[i], static_cast<std::uint64_t>(ticks)) << i;
  }
}

// With one gap per arrival, eight routers can offer eight times what one can.
TEST(Router, EachOfSeveralDrawsItsPartOfTheRateAndNoOther) {
  constexpr std::size_t routers = 8;
  constexpr std::size_t arrivals = 4000;
  std::vector<std::uint64_t> all;
  for (std::size_t number = 0; number < routers; ++number) {
    const std::vector<std::uint64_t> stamps = stamps_of(number, routers, arrivals);
    PoissonArrivals expected(rate_mqs / routers, arrivals_seed + number);
    double ticks = static_cast<double>(first_tick);
    for (std::size_t i = 0; i < arrivals; ++i) {
      ticks += expected.next_gap_ns() / Clock::ns_per_tick();
      ASSERT_EQ(stamps[i], static_cast<std::uint64_t>(ticks)) << number << ", " << i;
    }
    all.insert(all.end(), stamps.begin(), stamps.end());
  }
  std::sort(all.begin(), all.end());
  // Together they are a Poisson stream of the whole rate: its gaps have their mean as deviation.
  // Half of them lie before the time at which the first router has no more.
  constexpr std::size_t counted = routers * arrivals / 2;
  double sum = 0.0, squares = 0.0;
  for (std::size_t i = 1; i <= counted; ++i) {
    const double ns = static_cast<double>(all[i] - all[i - 1]) * Clock::ns_per_tick();
    sum += ns;
    squares += ns * ns;
  }
  const double mean = sum / counted;
  EXPECT_NEAR(mean, 1e3 / rate_mqs, 0.05 * 1e3 / rate_mqs);
  EXPECT_NEAR(std::sqrt(squares / counted - mean * mean) / mean, 1.0, 0.05);
}

TEST(Router, TellsWhileItRunsThatItWaitsAndHowFarItIsBehind) {
  OpenRouter open(0, 1, 64);
  EXPECT_EQ(open.router.backpressure(), 0U);
  while (open.router.backpressure() == 0) open.router.step(open.control);
  // Nobody answers, so every moment adds to the lag.
  EXPECT_EQ(open.router.step(open.control), Router::Step::waiting);
  const std::uint64_t lag = open.router.lag_ticks();
  const std::uint64_t then = Clock::ticks();
  while (Clock::ticks() < then + 10'000) {
  }
  EXPECT_EQ(open.router.step(open.control), Router::Step::waiting);
  EXPECT_GE(open.router.lag_ticks(), lag + 10'000);
  EXPECT_EQ(open.router.backpressure(), 1U);
  EXPECT_EQ(open.router.totals().backpressure, 1U);
}

/// A router of a closed load on so many workers, whose slices they share out in turn.
class ClosedRouter {
 public:
  ClosedRouter(std::size_t workers, std::uint64_t tokens, std::size_t room)
      : index_(kinds::kind_named("btree").serve(small_spec(1, 0, 0, 0), {many_slices, false, {}})),
        board_(routes(workers)),
        router(settings(tokens), *index_, 1, 20'000, board_, *std::pmr::get_default_resource()) {
    control.enter(Phase::measuring);
    std::vector<Ring*> queues;
    for (std::size_t i = 0; i < workers; ++i) {
      rings.push_back(std::make_unique<Ring>(room));
      queues.push_back(rings.back().get());
    }
    router.connect(queues);
  }

  /// Steps until it has nothing to send.
  void send_all() {
    while (router.step(control) == Router::Step::sent) {
    }
  }
  /// A worker takes up to `limit` queries; how many.
  std::size_t take(std::size_t worker, std::size_t limit) {
    const std::size_t count = rings[worker]->readable(limit);
    rings[worker]->release(count);
    return count;
  }

 private:
  static constexpr std::uint32_t many_slices = 256;
  static Routes routes(std::size_t workers) {
    Routes all;
    for (std::uint32_t slice = 0; slice <= many_slices; ++slice) all.first.push_back(slice);
    for (std::uint32_t slice = 0; slice < many_slices; ++slice) {
      all.workers.push_back(static_cast<std::uint32_t>(slice % workers));
    }
    return all;
  }
  static Router::Settings settings(std::uint64_t tokens) {
    Router::Settings settings;
    settings.tokens = tokens;
    settings.origin = Clock::ticks();
    return settings;
  }

  std::unique_ptr<ServedIndex> index_;
  RouteBoard board_;

 public:
  Control control;
  std::vector<std::unique_ptr<Ring>> rings;
  Router router;
};

TEST(Router, ComesRoundToTheAnswersOfEveryWorkerHoweverManyThereAre) {
  constexpr std::size_t workers = 128;
  constexpr std::uint64_t tokens = 2048;
  ClosedRouter closed(workers, tokens, 1024);
  closed.send_all();
  EXPECT_EQ(closed.router.totals().issued, tokens);
  std::uint64_t answered = 0;
  for (std::size_t worker = 0; worker < workers; ++worker) {
    answered += closed.take(worker, 1);
    // A step looks at a part of the queues, so a worker far behind is seen some steps later.
    for (std::size_t i = 0; i < workers && closed.router.totals().issued < tokens + answered; ++i) {
      closed.router.step(closed.control);
    }
    ASSERT_EQ(closed.router.totals().issued, tokens + answered) << "worker " << worker;
  }
  EXPECT_GT(answered, workers / 2);
  EXPECT_EQ(closed.router.totals().max_outstanding, tokens);
}

TEST(Router, UnderAClosedLoadAFullQueueHoldsNoOtherWorkerUp) {
  constexpr std::uint64_t tokens = 1000;
  ClosedRouter closed(2, tokens, 64);
  // The first worker answers nothing, the second one everything: the first has all tokens at last.
  for (int turn = 0; turn < 1000; ++turn) {
    closed.send_all();
    closed.take(1, 64);
  }
  EXPECT_EQ(closed.rings[0]->in_flight(), 64U);
  EXPECT_EQ(closed.rings[1]->in_flight(), 0U);
  EXPECT_EQ(closed.router.backpressure(), 0U);
  // What waits comes in the end, also when nothing more is drawn.
  closed.control.enter(Phase::drain);
  std::uint64_t taken = 0;
  while (closed.router.step(closed.control) != Router::Step::finished) taken += closed.take(0, 64);
  while (const std::size_t count = closed.take(0, 64)) taken += count;
  EXPECT_EQ(taken, tokens);
}

}  // namespace
}  // namespace pmoss::runtime
