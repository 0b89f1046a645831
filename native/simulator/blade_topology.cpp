#include "simulator/blade_topology.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace pmoss::simulator {
namespace {

constexpr double line_bytes = 64.0;

}  // namespace

BladeTopology::BladeTopology(const Machine& machine, const OffloadParameters& parameters)
    : machine_(machine),
      parameters_(parameters),
      nodes_(machine.nodes()),
      hubs_(nodes_ / parameters.sockets_per_blade * parameters.hubs_per_blade) {
  link_of_.assign(first_link() * first_link(), -1);
  for (int socket = 0; socket < nodes_; ++socket) join_sockets(socket);
  join_hubs();
  // What the latencies of the machine say of one link.
  const int side = parameters_.sockets_per_blade;
  const double local = latency_ns(0, 0);
  hop_ns_ = side > 1 ? latency_ns(0, 1) - local : 0.0;
  hub_hop_ns_ = nodes_ > side ? latency_ns(0, side) - local - 2 * hop_ns_ : 0.0;
  if (hop_ns_ < 0 || hub_hop_ns_ < 0) {
    throw std::invalid_argument(
        "latencies: the next socket must be farther than the own memory, and another blade "
        "farther than two sockets");
  }
}

/// Joins a socket to the next ones of its blade and to its hub.
void BladeTopology::join_sockets(int socket) {
  const int side = parameters_.sockets_per_blade;
  for (int other = 0; other < nodes_; ++other) {
    // A ring on each blade: a square has no diagonals.
    const int apart = std::abs(socket - other);
    if (blade_of(socket) != blade_of(other) || (apart != 1 && apart != side - 1)) continue;
    if (socket == other) continue;
    add_link(socket, other, "socket" + std::to_string(socket) + "-socket" + std::to_string(other),
             parameters_.socket_link_gb_per_s);
  }
  const int hub = hub_of(socket);
  const std::string names[] = {"socket" + std::to_string(socket), "hub" + std::to_string(hub)};
  add_link(socket, nodes_ + hub, names[0] + "-" + names[1], parameters_.socket_link_gb_per_s);
  add_link(nodes_ + hub, socket, names[1] + "-" + names[0], parameters_.socket_link_gb_per_s);
}

void BladeTopology::join_hubs() {
  for (int a = 0; a < hubs_; ++a) {
    for (int b = 0; b < hubs_; ++b) {
      if (a == b) continue;
      add_link(nodes_ + a, nodes_ + b, "hub" + std::to_string(a) + "-hub" + std::to_string(b),
               parameters_.hub_link_gb_per_s);
    }
  }
}

int BladeTopology::hub_of(int node) const {
  const int in_blade = node % parameters_.sockets_per_blade;
  const int sockets_per_hub = parameters_.sockets_per_blade / parameters_.hubs_per_blade;
  return blade_of(node) * parameters_.hubs_per_blade + in_blade / sockets_per_hub;
}

int BladeTopology::co_tenant_of(int node) const {
  const int side = parameters_.sockets_per_blade;
  const int first = blade_of(node) * side;
  return first + (node - first + 1) % side;
}

void BladeTopology::add_link(int from, int to, const std::string& name, double gb_per_s) {
  link_of_[static_cast<std::size_t>(from * (nodes_ + hubs_) + to)] =
      static_cast<int>(link_names_.size());
  link_names_.push_back(name);
  link_gb_per_s_.push_back(gb_per_s);
}

std::size_t BladeTopology::link(int from, int to) const {
  return static_cast<std::size_t>(link_of_[static_cast<std::size_t>(from * (nodes_ + hubs_) + to)]);
}

void BladeTopology::add_hop(Route& route, int from, int to, double after_ns) const {
  const std::size_t forward = link(from, to);
  const double ns = (line_bytes + parameters_.line_overhead_bytes) / link_gb_per_s_[forward];
  route.push_back({first_link() + forward, ns, after_ns, first_link() + link(to, from), true});
}

BladeTopology::Route BladeTopology::from_memory(int node) const {
  const auto memory = static_cast<std::size_t>(node);
  return {{memory, line_bytes / machine_.dram_gb_per_s[memory], 0.0, memory, false}};
}

/// Goes round the ring of a blade the shorter way; over the lower numbers where both are as long.
void BladeTopology::add_ring(Route& route, int from, int to) const {
  const int side = parameters_.sockets_per_blade;
  const int first = blade_of(from) * side;
  const int ahead = (to - from + side) % side;
  const int step = ahead <= side - ahead ? 1 : side - 1;
  for (int at = from; at != to;) {
    const int next = first + (at - first + step) % side;
    add_hop(route, at, next, 0.0);
    at = next;
  }
}

BladeTopology::Route BladeTopology::load_route(int execution_node, int storage_node) const {
  Route route = from_memory(storage_node);
  if (execution_node == storage_node) return route;
  if (blade_of(execution_node) == blade_of(storage_node)) {
    add_ring(route, storage_node, execution_node);
  } else {
    const int from = nodes_ + hub_of(storage_node), to = nodes_ + hub_of(execution_node);
    add_hop(route, storage_node, from, 0.0);
    add_hop(route, from, to, 0.0);
    add_hop(route, to, execution_node, 0.0);
  }
  // The idle latency of the machine holds as a whole: what the queues do not take of it is spread
  // evenly over the links.
  double rest = latency_ns(execution_node, storage_node) - latency_ns(storage_node, storage_node);
  for (std::size_t i = 1; i < route.size(); ++i) rest -= route[i].ns_per_line;
  for (std::size_t i = 1; i < route.size(); ++i) {
    route[i].after_ns = std::max(0.0, rest) / static_cast<double>(route.size() - 1);
  }
  return route;
}

BladeTopology::Route BladeTopology::copy_route(int hub, int storage_node, int target_node,
                                               bool coherent) const {
  Route route = from_memory(storage_node);
  const int near = hub_of(storage_node);
  add_hop(route, storage_node, nodes_ + near, hop_ns_);
  if (near != hub) add_hop(route, nodes_ + near, nodes_ + hub, hub_hop_ns_);
  const auto engine = static_cast<std::size_t>(nodes_ + hub);
  const double ns = parameters_.engine_line_ns + (coherent ? parameters_.engine_coherence_ns : 0.0);
  route.push_back({engine, ns, 0.0, engine, false});
  const int far = hub_of(target_node);
  if (far != hub) add_hop(route, nodes_ + hub, nodes_ + far, hub_hop_ns_ / 2);
  add_hop(route, nodes_ + far, target_node, hop_ns_ / 2);
  return route;
}

}  // namespace pmoss::simulator
