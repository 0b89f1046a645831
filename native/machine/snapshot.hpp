// What a model measured under one schedule.
#pragma once

#include <vector>

namespace pmoss {

/// Per-slice quantities; rates in million per second, times in microseconds per microsecond. The
/// names are those of the counter vocabulary (pmoss_env/types.py); `throughput` is its "queries".
struct SliceRates {
  double throughput, cycles, instructions, l1d_misses, llc_misses, branch_misses, memory_misses,
      dtlb_misses, memory_accesses, llc_write_misses, memory_write_misses, local_dram, remote_dram,
      cycles_l3_miss, cycles_mem_any, task_clock_us, elapsed_us, context_switches;
};

struct Snapshot {
  double throughput = 0;  // million queries per second
  std::vector<SliceRates> slices;
  std::vector<double> read_gb_per_s;   // per node
  std::vector<double> write_gb_per_s;  // per node
  std::vector<double> link_gb_per_s;   // [from socket][to socket]
  double latency_p50_us = 0;
  double latency_p99_us = 0;
};

}  // namespace pmoss
