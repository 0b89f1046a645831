// Latency of a memory or link under load, from the measured curves (Esmaili-Dokht et al., PROFET).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "machine/machine.hpp"

namespace pmoss {

/// A LatencyCurve, tabulated: loaded / idle latency at a utilisation.
class LoadedLatency {
 public:
  explicit LoadedLatency(const LatencyCurve& curve);

  /// `utilisation` is not negative. Beyond saturation Little's law sets the latency: a steep line
  /// lets a fixed point find it.
  double at(double utilisation) const {
    const double position = std::min(utilisation, knee) * steps_per_unit;
    const auto i = static_cast<std::size_t>(position);
    const double latency =
        table_[i] + (position - static_cast<double>(i)) * (table_[i + 1] - table_[i]);
    return utilisation > knee ? latency * (1.0 + 25.0 * (utilisation - knee)) : latency;
  }

 private:
  static constexpr double knee = 0.97;
  static constexpr double steps_per_unit = 1024.0;
  std::array<double, 996> table_{};
};

}  // namespace pmoss
