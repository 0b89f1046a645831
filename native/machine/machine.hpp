// A machine as the models see it. Python fills it from a machine description
// (pmoss_env/machines/presets/*.toml), where every value has its unit, source and confidence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pmoss {

/// Loaded latency / idle latency = 1 + a u + b u^c / (1.02 - u) at utilisation u.
struct LatencyCurve {
  double a = 0, b = 0, c = 1;
};

struct Machine {
  // Per core. A core here is what the operating system calls a CPU: a hardware thread.
  std::vector<int> node_of_core;
  std::vector<int> llc_of_core;
  /// Hardware threads with the same number share private caches and execution units.
  std::vector<int> physical_of_core;
  std::vector<std::uint8_t> is_worker;
  // Per node.
  std::vector<int> socket_of_node;

  double clock_ghz = 0;
  double instructions_per_cycle = 0;  // without stalls on memory or branches
  double branch_miss_cycles = 0;
  double mlp_dependent = 1;  // misses overlapped in a dependent phase
  double mlp_streaming = 1;
  double smt_share = 1;  // speed of a hardware thread while its sibling runs, of that alone

  double l2_lines = 0;  // per physical core
  int l2_ways = 16;
  double l2_ns = 0;      // what a touch waits that the first level does not hold
  double llc_lines = 0;  // per last-level domain
  int llc_ways = 16;
  double llc_ns = 0;
  /// True where it holds a copy of all that the private caches hold; else it takes what they evict.
  bool llc_inclusive = false;
  /// True where a line of the own socket is cached at its home cluster (sub-NUMA clustering).
  bool llc_at_home_cluster = false;

  /// [reader's domain][owner's domain]: a line modified in another cache, its home at the owner.
  std::vector<double> modified_ns;
  /// Added where the home of such a line is on the reader's socket and not on the owner's.
  double modified_home_reader_ns = 0;
  /// Per core: what a mesh adds to the latencies of the last level and of memory. Below 0 where the
  /// core is nearer than the mean. Empty: all cores of a domain are as far.
  std::vector<double> mesh_ns;
  /// [reader][owner], cores of one domain: what the mesh adds to `modified_ns`. Empty as `mesh_ns`.
  std::vector<double> mesh_modified_ns;

  std::vector<double> dram_ns;              // [core's node][memory's node], idle
  std::vector<double> dram_gb_per_s;        // per node, reading only
  std::vector<double> dram_write_gb_per_s;  // per node, writing only
  LatencyCurve dram_curve;
  /// [from socket][to socket]; 0 where no link joins the two.
  std::vector<double> link_gb_per_s;
  /// [from socket][to socket]: where a transfer goes next; `to` itself over a direct link.
  std::vector<int> next_socket;
  LatencyCurve link_curve;

  double dtlb_pages = 0;  // entries of the first-level TLB
  double tlb_pages = 0;   // entries of the second-level TLB
  double tlb_ns = 0;      // what a touch waits whose page only the second level holds
  double page_walk_ns = 0;
  double page_bytes = 4096;

  double query_overhead_cycles = 0;  // what a worker takes beyond the index's own code
  double dispatch_ns = 0;  // what a router takes to hand out a query, where that is modelled
  int routers = 1;

  int cores() const { return static_cast<int>(node_of_core.size()); }
  int nodes() const { return static_cast<int>(socket_of_node.size()); }
  int sockets() const;
  int llc_domains() const;
  int workers() const;
  double dram_latency(int core_node, int memory_node) const {
    return dram_ns[static_cast<std::size_t>(core_node * nodes() + memory_node)];
  }
  bool has_mesh() const { return !mesh_ns.empty(); }
  /// The domain that caches a line of `memory_node` for a core.
  int llc_of(int core, int memory_node) const;
  /// Sets the defaults of empty fields. No hardware threads share a core, and every pair of sockets
  /// has a link of its own. Writing is as fast as reading, and a modified line comes at the latency
  /// of its memory. Then checks everything; throws std::invalid_argument that names the field, the
  /// value and what would be right.
  void complete();

 private:
  void check() const;
  void check_places() const;
  void check_mesh() const;
  void check_route(std::size_t from, std::size_t to) const;
};

}  // namespace pmoss
