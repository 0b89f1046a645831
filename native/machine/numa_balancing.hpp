// Linux's automatic NUMA balancing, as both models take it into account.
#pragma once

#include <algorithm>

namespace pmoss {

/// Each page that lies with the loader (DataPlacement::loader) has moved to the node of one of
/// those that access it, except a share that stays; and hint faults take time of the workers.
/// Interleaved pages and pages bound to their slice's node are exempt.
struct NumaBalancing {
  double stay_share = 0.25;           ///< of the pages
  double hint_faults_per_us = 0.065;  ///< of the whole process: 256 MB/s of 4 KiB pages
  double hint_fault_ns = 2000.0;      ///< of one fault

  /// The share of its time that each of so many workers loses to hint faults.
  double fault_share(double workers) const {
    return std::min(0.5, hint_faults_per_us * hint_fault_ns * 1e-3 / workers);
  }
};

}  // namespace pmoss
