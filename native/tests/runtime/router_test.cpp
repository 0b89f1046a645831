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

// Stamps of an open load are its planned arrivals: those that the simulator draws for the seed.
TEST(Router, AllRoutersTogetherSendTheArrivalsOfTheSeed) {
  constexpr std::size_t routers = 3;
  constexpr std::size_t arrivals = 300;
  constexpr double rate_mqs = 50.0;
  constexpr std::uint64_t seed = 9;
  const auto index = kinds::kind_named("btree").serve(small_spec(1, 0, 0, 0), {slices, false, {}});
  Routes routes;
  for (std::uint32_t slice = 0; slice <= slices; ++slice) routes.first.push_back(slice);
  routes.workers.assign(slices, 0);
  const RouteBoard board(routes);
  Control control;
  control.enter(Phase::warmup);

  const std::uint64_t begin = 1000;
  std::vector<std::uint64_t> stamps;
  for (std::size_t number = 0; number < routers; ++number) {
    Router::Settings settings;
    settings.number = number;
    settings.routers = routers;
    settings.load = LoadKind::open;
    settings.rate_mqs = rate_mqs;
    settings.origin = Clock::ticks();
    Router router(settings, *index, seed, 20'000, board);
    Ring ring(arrivals);
    router.begin_at(begin);
    router.connect({&ring});
    while (ring.in_flight() < arrivals / routers) router.step(control);
    ring.readable(arrivals);
    for (std::size_t i = 0; i < arrivals / routers; ++i) stamps.push_back(ring.front(i).stamp());
  }
  std::sort(stamps.begin(), stamps.end());
  PoissonArrivals expected(rate_mqs, seed);
  double ticks = static_cast<double>(begin);
  for (std::size_t i = 0; i < arrivals; ++i) {
    ticks += expected.next_gap_ns() / Clock::ns_per_tick();
    EXPECT_EQ(stamps[i], static_cast<std::uint64_t>(ticks)) << i;
  }
}

}  // namespace
}  // namespace pmoss::runtime
