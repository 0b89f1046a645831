// The throughput of the workers when memory slows down under their traffic. It is a fixed point
// over the use of memory controllers and links, in every load regime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine/interference.hpp"
#include "machine/link_routes.hpp"
#include "machine/load.hpp"
#include "machine/loaded_latency.hpp"
#include "machine/machine.hpp"

namespace pmoss::analytic {

/// What a schedule asks of the machine, per query of the workload.
struct Demands {
  // Per core.
  std::vector<double> share;       // probability that a query is served there
  std::vector<double> fixed_ns;    // all but waiting for memory
  std::vector<double> square_ns2;  // sum over queries of share times squared time, memory idle
  // [core][node]
  std::vector<double> stall_ns;  // waiting for the node's memory while that is idle
  std::vector<double> read_bytes;
  std::vector<double> written_bytes;
  /// Per core: another number after each of these calls.
  std::vector<std::uint64_t> version;

  void clear(std::size_t cores, std::size_t nodes);
  void clear_core(std::size_t core, std::size_t nodes, double new_share);
  void copy_core(std::size_t from, std::size_t to, std::size_t nodes);

 private:
  std::uint64_t latest_ = 0;
};

class Contention {
 public:
  /// `dispatched`: queries pass the machine's routers first. The machine must outlive this object.
  Contention(const Machine& machine, const Load& load, bool dispatched);

  void set_interference(const Interference& interference);
  /// Whether the workers lose time to the hint faults of NUMA balancing.
  void set_hint_faults(bool there_are);

  /// Throughput in queries per nanosecond.
  double solve(const Demands& demands);

  // Of the last solve().
  /// Queries per nanosecond of each core.
  const std::vector<double>& core_rate() const { return core_rate_; }
  /// Time of each core with contention, ns per query of the workload; 0 where no query goes.
  const std::vector<double>& total_ns() const { return total_ns_; }
  /// Loaded / idle latency, [core's node][memory's node].
  const std::vector<double>& multiplier() const { return multiplier_; }
  const std::vector<double>& burst() const { return burst_; }
  const LinkRoutes& routes() const { return routes_; }
  /// How much longer a core's queries take because of co-tenants and siblings.
  double slowdown(std::size_t core) const { return slowdown_[core]; }
  int steps() const { return steps_; }
  static constexpr int step_limit = 200;

 private:
  struct Use {
    std::size_t resource;
    double use;  // per query of the workload
  };
  struct Stall {
    std::size_t core, path;  // path: [core's node][memory's node]
    double idle_ns;
  };

  /// What one core asks for; the same as long as its demands are.
  struct Asked {
    std::vector<Use> uses;
    std::vector<Stall> stalls;
    double burst = 1;
    std::uint64_t version = 0;  // of its demands
  };

  void collect(const Demands& demands);
  void ask(const Demands& demands, std::size_t core);
  void add_use(std::size_t core, std::size_t node, double read, double written);
  void load_memory(const std::vector<double>& use);
  /// How much longer each core takes, its siblings busy as at `throughput`.
  void slow_cores(const Demands& demands, double throughput);
  /// Times of all cores at the present latencies, without what slows them down.
  void time_cores(const Demands& demands);
  bool siblings_follow() const;
  double serve(const Demands& demands, double throughput);
  double solve_shared(const Demands& demands);
  double solve_saturated(const Demands& demands);

  const Machine& machine_;
  Load load_;
  LoadedLatency dram_latency_, link_latency_;
  LinkRoutes routes_;
  double router_ns_;  // of one router, per query of the workload; 0 where dispatch is ideal
  std::vector<std::vector<std::size_t>>
      sibling_;  // per core: workers that share its execution units
  bool any_sibling_ = false;
  // A resource is a node's memory or, numbered behind the nodes, a link of LinkRoutes.
  std::vector<double> co_tenant_use_;
  std::vector<double> busy_slowdown_;      // per core: 1 / (1 - busy share)
  double fault_slowdown_ = 1;              // likewise of hint faults
  std::vector<double> co_tenant_sibling_;  // per core: share of the time that a co-tenant is there

  double population_;                // queries in flight
  std::vector<Asked> asked_;         // per core
  std::vector<std::size_t> active_;  // cores that serve a slice
  std::vector<Stall> stalls_;
  std::vector<double> total_use_;
  std::vector<double> use_, smooth_use_, step_, last_change_, latency_;
  std::vector<double> base_ns_, total_ns_, slowdown_;  // per core, per query of the workload
  std::vector<double> demand_, station_burst_;         // active cores, then routers
  std::vector<double> core_rate_, burst_, multiplier_;
  int steps_ = 0;
};

}  // namespace pmoss::analytic
