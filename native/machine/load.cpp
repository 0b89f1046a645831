#include "machine/load.hpp"

#include <stdexcept>
#include <string>

namespace pmoss {

void Load::validate() const {
  if (outstanding_per_worker < 1) {
    throw std::invalid_argument("outstanding_per_worker = " +
                                std::to_string(outstanding_per_worker) + ": must be at least 1");
  }
  if (counts_mix && kind != Kind::saturated) {
    throw std::invalid_argument("counts_mix: only a saturated load can serve another mix");
  }
  if (kind == Kind::open && !(offered_mq_per_s > 0.0)) {
    throw std::invalid_argument("offered load = " + std::to_string(offered_mq_per_s) +
                                " Mq/s: must be positive for an open load");
  }
}

}  // namespace pmoss
