// How long requests take when many threads share the memories, links and CPUs of a machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "machine/link_routes.hpp"
#include "machine/loaded_latency.hpp"
#include "machine/machine.hpp"
#include "threads/program.hpp"

namespace pmoss::threads {

/// Threads with the same data node, sharing and sibling.
struct Kind {
  int cpu_node = 0;
  int home = 0;          ///< node of their data
  int on_cpu = 1;        ///< threads that take turns on the CPU
  bool sibling = false;  ///< whether the other hardware thread of the core is busy
  double threads = 0;

  // Filled by MemoryTime::solve.
  double user_ns = 0;    ///< per request: work in user mode,
  double kernel_ns = 0;  ///< in the kernel,
  double read_ns = 0;    ///< waiting for what is read,
  double write_ns = 0;   ///< and for what is written
  double ghz = 0;
  double line_ns = 0;   ///< latency of a line of the values, loaded
  double index_ns = 0;  ///< latency of a line of the index, loaded

  double request_ns() const noexcept { return user_ns + kernel_ns + read_ns + write_ns; }
  double stalled() const noexcept { return (read_ns + write_ns) / request_ns(); }
  /// Requests per second of one of the threads.
  double rate() const noexcept { return 1e9 / (request_ns() * on_cpu); }
};

/// Finds the steady state of waiting and traffic. Below saturation latencies follow the measured
/// curves. Beyond it a memory's latency rises until its traffic fits (Little's law).
class MemoryTime {
 public:
  MemoryTime(const Machine& machine, const SlowMemory& slow, const Program& program,
             const Kernel& kernel);

  /// Fills the kinds. Allocates nothing.
  void solve(std::vector<Kind>& kinds);

  const Machine& machine() const noexcept { return machine_; }
  bool is_slow(int node) const noexcept { return slow_node_[static_cast<std::size_t>(node)]; }
  /// The node with cores that is nearest to a memory.
  int cores_near(int node) const noexcept { return near_[static_cast<std::size_t>(node)]; }
  bool is_remote(int cpu_node, int home) const noexcept {
    return machine_.socket_of_node[static_cast<std::size_t>(cpu_node)] !=
           machine_.socket_of_node[static_cast<std::size_t>(home)];
  }
  double write_bytes(int home) const noexcept;
  double read_bytes(int home) const noexcept;

 private:
  struct Resource {
    double demand = 0;       ///< of the present state, in shares of what it can carry
    double latency = 1;      ///< loaded / idle
    double last_change = 0;  ///< of it in the round before, relative
    double damping = 1;      ///< of its steps, smaller while they swing
    /// Moves the latency towards where demand and latency agree; true once they do.
    bool settle(const LoadedLatency& curve);
  };

  void fill(Kind& kind) const;
  void add_demand(const Kind& kind);
  double blocks(double bytes, int home) const noexcept;
  /// The links from one node's socket to another's.
  std::span<const std::uint32_t> links_between(int from_node, int to_node) const noexcept {
    return routes_.between_nodes(static_cast<std::size_t>(from_node),
                                 static_cast<std::size_t>(to_node));
  }

  Machine machine_;
  SlowMemory slow_;
  Program program_;
  Kernel kernel_;
  LoadedLatency memory_curve_, link_curve_;
  LinkRoutes routes_;
  std::vector<bool> slow_node_;
  std::vector<int> near_;
  std::vector<Resource> memories_, paths_, links_;  // paths: remote reads of a slow memory
  std::vector<double> remote_writers_;              // at once, per node
};

}  // namespace pmoss::threads
