#include "simulator/slice_counts.hpp"

namespace pmoss::simulator {
namespace {

// A fair scheduler lets two runnable threads alternate every few milliseconds.
constexpr double time_slice_us = 3000.0;

}  // namespace

SliceRates SliceCounts::rates(double per_us, const recording::Trace& trace,
                              const Machine& machine) const {
  const double lines = trace.line_sampling;
  const double pages = trace.page_sampling;
  const auto rate = [per_us](auto count) { return static_cast<double>(count) * per_us; };
  SliceRates r{};
  r.queries = rate(queries);
  r.cycles = rate(task_ns) * machine.clock_ghz;
  r.instructions = rate(instructions);
  r.l1d_misses = rate(touches);
  r.llc_misses = lines * rate(reads_missed);
  r.branch_misses = rate(branch_misses);
  r.memory_misses = lines * rate(reads_from_remote_memory);
  r.dtlb_misses = pages * rate(walks);
  r.memory_accesses = lines * rate(reads_from_memory);
  r.llc_write_misses = lines * rate(writes_missed);
  r.memory_write_misses = lines * rate(writes_from_remote_memory);
  r.local_dram = lines * rate(local_loads);
  r.remote_dram = lines * rate(remote_loads);
  r.cycles_l3_miss = lines * rate(beyond_domain_ns) * machine.clock_ghz;
  r.cycles_mem_any =
      r.cycles_l3_miss + machine.clock_ghz * (lines * rate(domain_ns) + pages * rate(walk_ns));
  r.task_clock_us = rate(task_ns) * 1e-3;
  r.elapsed_us = rate(elapsed_ns) * 1e-3;
  // A preempted thread waits a time slice for every one it runs against its co-tenant.
  r.context_switches = (r.elapsed_us - r.task_clock_us) / time_slice_us;
  return r;
}

}  // namespace pmoss::simulator
