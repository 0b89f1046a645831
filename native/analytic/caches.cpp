#include "analytic/caches.hpp"

namespace pmoss::analytic {

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
