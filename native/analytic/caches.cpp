#include "analytic/caches.hpp"

#include <algorithm>

namespace pmoss::analytic {
namespace {

constexpr double line_bytes = 64.0;

}  // namespace

void Caches::wait_for(Index i, const RowSums& sums) {
  const Stream& stream = streams_[i];
  const double mine = stream.share * stream.part;
  Demand& demand = demand_[i];
  // Between the points of a table a sum near 0 may come out below it.
  const double near = std::max(0.0, sums.near), far = std::max(0.0, sums.far);
  // Every touch has waited for the private cache already.
  demand.llc_ns =
      mine * (near * std::max(0.0, machine_.llc_ns - machine_.l2_ns) - far * machine_.l2_ns);
  demand.dram_ns = mine * far *
                   machine_.dram_latency(static_cast<int>(map_.node_of_core[stream.core]),
                                         static_cast<int>(stream.node));
  demand.read_bytes = mine * line_bytes * std::max(0.0, sums.fetched);
  demand.written_bytes = mine * line_bytes * std::max(0.0, sums.dirtied);
}

PastSums Caches::sum_past(Index i) const {
  const Index slice = streams_[i].touched;
  const std::size_t first = instance_.row(slice);
  past_.resize(instance_.classes(slice));
  past_llc(i, past_);
  PastSums sums;
  for (std::size_t k = 0; k < past_.size(); ++k) {
    sums.loads += instance_.dependent[first + k] * past_[k];
    sums.misses += instance_.touches[first + k] * past_[k];
    sums.write_misses += instance_.touches[first + k] * past_[k] * instance_.dirty_share[first + k];
  }
  return sums;
}

}  // namespace pmoss::analytic
