// What the queries of a slice did, and what hardware counters would show of it.
#pragma once

#include <cstdint>

#include "machine/machine.hpp"
#include "machine/snapshot.hpp"
#include "recording/trace.hpp"

namespace pmoss::simulator {

/// Counts of recorded lines and pages are not yet weighted by the sampling.
struct SliceCounts {
  std::uint64_t queries, instructions, touches, reads_missed, writes_missed, reads_from_memory,
      reads_from_remote_memory, writes_from_remote_memory, local_loads, remote_loads, walks;
  double branch_misses, beyond_domain_ns, domain_ns, walk_ns, task_ns, elapsed_ns;

  /// Per microsecond, of all lines and pages.
  SliceRates rates(double per_us, const recording::Trace& trace, const Machine& machine) const;
};

}  // namespace pmoss::simulator
