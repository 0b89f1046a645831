#include "machine/loaded_latency.hpp"

#include "workload/portable_math.hpp"

namespace pmoss {

LoadedLatency::LoadedLatency(const LatencyCurve& curve) {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const double u = static_cast<double>(i) / steps_per_unit;
    const double rise = u > 0.0 ? portable::power(u, curve.c) : 0.0;
    table_[i] = 1.0 + curve.a * u + curve.b * rise / (1.02 - u);
  }
}

}  // namespace pmoss
