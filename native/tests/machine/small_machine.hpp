// A machine with two sockets, two nodes each, two cores per node, for tests.
#pragma once

#include "machine/machine.hpp"

namespace pmoss {

inline Machine small_machine() {
  Machine m;
  for (int core = 0; core < 8; ++core) {
    m.node_of_core.push_back(core / 2);
    m.llc_of_core.push_back(core / 2);
    m.is_worker.push_back(1);
  }
  m.socket_of_node = {0, 0, 1, 1};
  m.clock_ghz = 2.0;
  m.instructions_per_cycle = 2.0;
  m.branch_miss_cycles = 16.0;
  m.mlp_dependent = 1.0;
  m.mlp_streaming = 4.0;
  m.l2_lines = 4096;
  m.llc_lines = 65536;
  m.llc_ns = 20.0;
  m.dram_ns.assign(16, 150.0);
  for (std::size_t node = 0; node < 4; ++node) m.dram_ns[node * 5] = 80.0;
  m.dram_gb_per_s.assign(4, 40.0);
  m.link_gb_per_s.assign(4, 20.0);
  m.dram_curve = {0.4, 0.1, 12.0};
  m.link_curve = m.dram_curve;
  m.tlb_pages = 1024;
  m.page_walk_ns = 15.0;
  return m;
}

}  // namespace pmoss
