// A machine with two sockets, two nodes each, two cores per node, for tests.
#pragma once

#include <cstdlib>

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

/// The same, where the cores of a socket share a last level on a mesh of four stops in a row.
inline Machine small_mesh_machine() {
  Machine m = small_machine();
  for (int core = 0; core < 8; ++core) m.llc_of_core[static_cast<std::size_t>(core)] = core / 4;
  m.modified_ns = {30.0, 150.0, 150.0, 30.0};
  for (int reader = 0; reader < 8; ++reader) {
    const int stop = reader % 4;
    m.mesh_ns.push_back(stop == 0 || stop == 3 ? 4.0 : -4.0);
    for (int owner = 0; owner < 8; ++owner) {
      const int hops = std::abs(stop - owner % 4);
      m.mesh_modified_ns.push_back(reader / 4 == owner / 4 ? 4.0 * hops - 6.0 : 0.0);
    }
  }
  return m;
}

}  // namespace pmoss
