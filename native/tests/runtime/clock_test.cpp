#include "runtime/clock.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace pmoss::runtime {
namespace {

TEST(Clock, GoesForwardAtAPlausibleRate) {
  const std::uint64_t first = Clock::ticks();
  const double ns_per_tick = Clock::ns_per_tick();
  EXPECT_GT(Clock::ticks(), first);
  EXPECT_GT(ns_per_tick, 0.05);
  EXPECT_LT(ns_per_tick, 1000.0);
}

}  // namespace
}  // namespace pmoss::runtime
