// When the queries of an open load arrive: one router on hardware has the simulator's moments.
#pragma once

#include <cstdint>

#include "workload/portable_math.hpp"
#include "workload/random.hpp"

namespace pmoss {

/// A Poisson process with a generator of its own: what else is drawn for the seed leaves it alone.
class PoissonArrivals {
 public:
  PoissonArrivals() noexcept = default;
  /// `rate_mqs`: million arrivals per second, above 0.
  PoissonArrivals(double rate_mqs, std::uint64_t seed) noexcept
      : rate_mqs_(rate_mqs), random_(mix64(seed) + 1) {}

  /// Nanoseconds from one arrival, or from the beginning, to the next.
  double next_gap_ns() noexcept {
    return -portable::log(1.0 - random_.uniform()) * 1e3 / rate_mqs_;
  }

 private:
  double rate_mqs_ = 1.0;
  Random random_{0};
};

}  // namespace pmoss
