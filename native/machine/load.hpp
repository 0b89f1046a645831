// How load is offered (closed loop, saturated workers, or fixed arrivals).
#pragma once

#include <cstdint>

namespace pmoss {

struct Load {
  enum class Kind : std::uint8_t { closed, saturated, open };
  Kind kind = Kind::closed;
  int outstanding_per_worker = 32;
  double offered_mq_per_s = 0;  // open only
  /// Saturated only: throughput is the rate at which the workload's mix is served. That is the
  /// least, over what has a queue of its own, of the rate served there over its share of the mix.
  bool counts_mix = false;

  /// Throws std::invalid_argument that names the value and what would be right.
  void validate() const;
};

}  // namespace pmoss
