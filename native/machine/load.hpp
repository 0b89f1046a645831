// How load is offered (closed loop, saturated workers, or fixed arrivals).
#pragma once

#include <cstdint>

namespace pmoss {

struct Load {
  enum class Kind : std::uint8_t { closed, saturated, open };
  Kind kind = Kind::closed;
  int outstanding_per_worker = 32;
  double offered_mq_per_s = 0;  // open only

  /// Throws std::invalid_argument that names the value and what would be right.
  void validate() const;
};

}  // namespace pmoss
