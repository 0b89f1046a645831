// The throughput of the workers when memory slows down under their traffic. It is a fixed point
// over the use of memory controllers and links, in every load regime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "machine/interference.hpp"
#include "machine/link_routes.hpp"
#include "machine/load.hpp"
#include "machine/loaded_latency.hpp"
#include "machine/machine.hpp"

namespace pmoss::analytic {

/// What a core asks of one node's memory.
struct MemoryDemand {
  double stall_ns = 0;  // waiting while the memory is idle
  double read_bytes = 0, written_bytes = 0;
};

/// What a schedule asks of the machine, per query of the workload.
struct Demands {
  // Per core.
  std::vector<double> share;         // probability that a query is served there
  std::vector<double> fixed_ns;      // all but waiting for memory
  std::vector<double> square_ns2;    // sum over queries of share times squared time, memory idle
  std::vector<MemoryDemand> memory;  // [core][node]
  /// Per core: another number after each of these calls.
  std::vector<std::uint64_t> version;

  void clear(std::size_t cores, std::size_t nodes);
  void clear_core(std::size_t core, std::size_t nodes, double new_share);
  void copy_core(std::size_t from, std::size_t to, std::size_t nodes);

 private:
  std::uint64_t latest_ = 0;
};

/// Data that follow a slice. A thread of the target's node reads them at the source and writes them
/// beside itself. As many lines are in flight as the processor fetches ahead.
struct Copying {
  std::size_t source = 0, target = 0;                              ///< nodes
  double most_gb_per_s = std::numeric_limits<double>::infinity();  ///< that the thread keeps
};

class Contention {
 public:
  /// `dispatched`: queries pass the machine's routers first. The machine must outlive this object.
  Contention(const Machine& machine, const Load& load, bool dispatched);

  void set_interference(const Interference& interference);
  /// Whether the workers lose time to the hint faults of NUMA balancing.
  void set_hint_faults(bool there_are);
  /// What is copied meanwhile; null: nothing.
  void set_copying(const Copying* copying);

  /// Of an open load, million queries per second.
  void set_offered(double mq_per_s) { load_.offered_mq_per_s = mq_per_s; }

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
  /// GB/s that the copy makes; 0 without one.
  double copied_gb_per_s() const { return copied_gb_per_s_; }
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
    std::size_t path;  // [core's node][memory's node]
    double idle_ns;
  };
  /// A core that serves a slice.
  struct Active {
    std::size_t core, stalls_end;  // its stalls are those from the end of the core before
    double fixed_ns, slowdown;
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
  void copy_beside(const std::vector<double>& use);
  double line_ns(const std::vector<double>& use, double gb_per_s) const;
  void load_memory(const std::vector<double>& use);
  /// How much longer each core takes, its siblings busy as at `throughput`.
  void slow_cores(const Demands& demands, double throughput);
  /// Times of the active cores at the present latencies.
  void time_cores();
  void take_times();
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
  std::vector<double> co_tenant_use_, copy_use_;
  bool copies_ = false;
  Copying copying_;
  std::vector<Use> copy_asks_;  // per GB/s
  double copied_gb_per_s_ = 0;
  std::vector<double> busy_slowdown_;      // per core: 1 / (1 - busy share)
  double fault_slowdown_ = 1;              // likewise of hint faults
  std::vector<double> co_tenant_sibling_;  // per core: share of the time that a co-tenant is there

  double population_;         // queries in flight
  std::vector<Asked> asked_;  // per core
  // Arrays of the greatest length that they can have, and how much of them is in use.
  std::size_t active_count_ = 0, stations_ = 0;
  std::vector<Active> active_;  // in ascending order
  std::vector<Stall> stalls_;   // of the active cores
  // What stalls and uses name, each once.
  std::vector<std::size_t> paths_, resources_;
  std::vector<std::uint8_t> path_used_;
  std::vector<double> total_use_;
  std::vector<double> use_, smooth_use_, step_, last_change_, latency_;
  std::vector<double> base_ns_;                 // per active core, per query of the workload
  std::vector<double> total_ns_, slowdown_;     // per core, likewise
  std::vector<double> demand_, station_burst_;  // active cores, then routers
  std::vector<double> core_rate_, burst_, multiplier_;
  int steps_ = 0;
};

}  // namespace pmoss::analytic
