#include "runtime/router.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
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
        router(settings(number, routers), *index_, arrivals_seed, 20'000, board_) {
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

}  // namespace
}  // namespace pmoss::runtime
