// A machine as the models see it. Python fills it from a machine description
// (pmoss_env/machines/presets/*.toml), where every value has its unit, source and confidence.
#pragma once

#include <cstdint>
#include <vector>

namespace pmoss {

struct Machine {
  // Per core.
  std::vector<int> node_of_core;
  std::vector<int> llc_of_core;
  std::vector<std::uint8_t> is_worker;
  // Per node.
  std::vector<int> socket_of_node;

  double clock_ghz = 0;
  double instructions_per_cycle = 0;  // without stalls on memory or branches
  double branch_miss_cycles = 0;
  double mlp_dependent = 1;  // misses overlapped in a dependent phase
  double mlp_streaming = 1;

  double l2_lines = 0;   // per core
  double llc_lines = 0;  // per last-level domain
  /// Share of the private L2s that adds to a victim cache's capacity; 0 for an inclusive one.
  double llc_victim_share = 0;
  /// True where a line of the own socket is cached at its home cluster (sub-NUMA clustering).
  bool llc_at_home_cluster = false;
  double llc_ns = 0;

  std::vector<double> dram_ns;        // [core's node][memory's node], idle
  std::vector<double> dram_gb_per_s;  // per node
  std::vector<double> link_gb_per_s;  // [from socket][to socket]
  // Loaded latency / idle latency = 1 + a u + b u^c / (1.02 - u) at utilisation u.
  double curve_a = 0, curve_b = 0, curve_c = 1;

  double tlb_pages = 0;  // entries of the second-level TLB
  double page_walk_ns = 0;
  double page_bytes = 4096;

  int cores() const { return static_cast<int>(node_of_core.size()); }
  int nodes() const { return static_cast<int>(socket_of_node.size()); }
  int sockets() const;
  int llc_domains() const;
  int workers() const;
  double dram_latency(int core_node, int memory_node) const {
    return dram_ns[static_cast<std::size_t>(core_node * nodes() + memory_node)];
  }
  /// Throws std::invalid_argument that names the field, the value and what would be right.
  void validate() const;
};

}  // namespace pmoss
