// The sockets, hubs and links of a server of blades, and the ways that lines take over them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "simulator/scan_types.hpp"

namespace pmoss::simulator {

/// The sockets of a blade form a ring. Each is joined to one of the blade's hubs, and all hubs are
/// joined to each other.
class BladeTopology {
 public:
  /// One queue on the way of a line. Resources are numbered: memories, engines, then links.
  struct Hop {
    std::size_t resource;
    double ns_per_line;
    double after_ns;      ///< until the line is at the next hop
    std::size_t reverse;  ///< the same link the other way round; itself for what is no link
    bool crosses_link;
  };
  using Route = std::vector<Hop>;

  /// Parameters and machine must have passed check(). Throws std::invalid_argument for latencies
  /// that contradict the links.
  BladeTopology(const Machine& machine, const OffloadParameters& parameters);

  /// The way of a line that a core loads: its memory, then the links to the core.
  Route load_route(int execution_node, int storage_node) const;
  /// The way of a line that the engine of a hub copies. It always passes the hub, even from a node
  /// to itself.
  Route copy_route(int hub, int storage_node, int target_node, bool coherent) const;

  int hub_of(int node) const;
  /// The next socket of the same blade.
  int co_tenant_of(int node) const;
  /// Idle latency of memory.
  double latency_ns(int execution_node, int storage_node) const {
    return machine_.dram_latency(execution_node, storage_node);
  }
  int nodes() const noexcept { return nodes_; }
  std::size_t resources() const noexcept { return first_link() + link_names_.size(); }
  std::size_t first_link() const noexcept { return static_cast<std::size_t>(nodes_ + hubs_); }
  const std::vector<std::string>& link_names() const noexcept { return link_names_; }
  const Machine& machine() const noexcept { return machine_; }
  const OffloadParameters& parameters() const noexcept { return parameters_; }

 private:
  int blade_of(int node) const { return node / parameters_.sockets_per_blade; }
  std::size_t link(int from, int to) const;
  void join_sockets(int socket);
  void join_hubs();
  void add_link(int from, int to, const std::string& name, double gb_per_s);
  void add_hop(Route& route, int from, int to, double after_ns) const;
  Route from_memory(int node) const;
  void add_ring(Route& route, int from, int to) const;

  Machine machine_;
  OffloadParameters parameters_;
  int nodes_ = 0, hubs_ = 0;
  double hop_ns_ = 0;      ///< round trip over one link between sockets
  double hub_hop_ns_ = 0;  ///< round trip between hubs
  std::vector<std::string> link_names_;
  std::vector<double> link_gb_per_s_;
  std::vector<int> link_of_;  ///< [from][to] over sockets and hubs; -1 for none
};

}  // namespace pmoss::simulator
