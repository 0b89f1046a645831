// What memory and links cost under the traffic that is simulated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine/interference.hpp"
#include "machine/link_routes.hpp"
#include "machine/loaded_latency.hpp"
#include "machine/machine.hpp"

namespace pmoss::simulator {

/// Lines moved since the beginning of a run.
struct Traffic {
  std::vector<std::uint64_t> read;     ///< per node
  std::vector<std::uint64_t> written;  ///< per node
  std::vector<std::uint64_t> flow;     ///< [from socket][to socket], before routing
};

/// Bandwidth in use over an epoch decides the latency in the next one. The measured curve is
/// followed with smoothed use. While an epoch's traffic is more than a resource can carry, its
/// latency is raised epoch by epoch. This is proportional and integral control, as in the Mess
/// simulator (Esmaili-Dokht et al., MICRO 2024).
class Contention {
 public:
  explicit Contention(const Machine& machine);

  void reset(const Interference& interference);

  void read(std::size_t node, std::size_t reader_socket) noexcept {
    ++traffic_.read[node];
    move(socket_of_node_[node], reader_socket);
  }
  void write(std::size_t node, std::size_t writer_socket) noexcept {
    ++traffic_.written[node];
    move(writer_socket, socket_of_node_[node]);
  }
  /// Lines that a core of node `to` reads at node `from` and writes beside itself.
  void copy(std::size_t from, std::size_t to, std::uint64_t lines) noexcept {
    traffic_.read[from] += lines;
    traffic_.written[to] += lines;
    traffic_.flow[socket_of_node_[from] * sockets_ + socket_of_node_[to]] += lines;
  }
  void move(std::size_t from, std::size_t to) noexcept { ++traffic_.flow[from * sockets_ + to]; }

  /// Ends an epoch of `ns`, in which every line stood for `bytes_per_line` bytes.
  void close_epoch(double ns, double bytes_per_line);

  /// Latency / idle latency of the memory of a node as a core of another (or the same) sees it.
  double multiplier(std::size_t core_node, std::size_t memory_node) const noexcept {
    return multiplier_[core_node * nodes_ + memory_node];
  }
  double dram_ns(std::size_t core_node, std::size_t memory_node) const noexcept {
    return dram_ns_[core_node * nodes_ + memory_node];
  }

  /// The part of it that the links between two sockets have; 1 within a socket.
  double link_multiplier(std::size_t from, std::size_t to) const noexcept {
    return route_latency_[from * sockets_ + to];
  }

  const Traffic& traffic() const noexcept { return traffic_; }
  /// The lines that crossed each link, [from socket][to socket], of given flows.
  void route(const std::vector<double>& flow, std::vector<double>& crossed) const;

 private:
  struct Resource {
    double co_tenant_use = 0;  ///< share of the bandwidth that co-tenants take
    double smooth_use = 0;
    double excess = 1;  ///< what queueing beyond the curve multiplies the latency by

    double latency_at(double use, const LoadedLatency& curve);
  };

  void update_multipliers();

  std::size_t nodes_, sockets_;
  Machine machine_;
  LoadedLatency dram_curve_, link_curve_;
  LinkRoutes routes_;
  std::vector<std::size_t> socket_of_node_;
  std::vector<Resource> memories_, links_;
  std::vector<double> memory_latency_, link_latency_;  // multipliers
  std::vector<double> route_latency_;                  // [from socket][to socket], of its links
  std::vector<double> multiplier_, dram_ns_;           // [core's node][memory's node]
  Traffic traffic_, before_;                           // now, and when the epoch began
  std::vector<double> epoch_flow_, crossed_;
};

}  // namespace pmoss::simulator
