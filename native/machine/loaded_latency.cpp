#include "machine/loaded_latency.hpp"

#include <algorithm>

#include "workload/portable_math.hpp"

namespace pmoss {

LoadedLatency::LoadedLatency(const LatencyCurve& curve) {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const double u = static_cast<double>(i) / steps_per_unit;
    const double rise = u > 0.0 ? portable::power(u, curve.c) : 0.0;
    table_[i] = 1.0 + curve.a * u + curve.b * rise / (1.02 - u);
  }
}

double LoadedLatency::at(double utilisation) const {
  const double position = std::min(utilisation, knee) * steps_per_unit;
  const auto i = static_cast<std::size_t>(position);
  const double latency =
      table_[i] + (position - static_cast<double>(i)) * (table_[i + 1] - table_[i]);
  return utilisation > knee ? latency * (1.0 + 25.0 * (utilisation - knee)) : latency;
}

}  // namespace pmoss
