// The analytic backend: demand profiles, cache sharing (Che's approximation) and a contention fixed
// point give the throughput of a schedule in microseconds, and after moving one slice in less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analytic/profile.hpp"
#include "machine/load.hpp"
#include "machine/loaded_latency.hpp"
#include "machine/machine.hpp"
#include "machine/snapshot.hpp"

namespace pmoss::analytic {

class Model {
 public:
  /// Throws std::invalid_argument for an impossible machine or load.
  Model(Machine machine, Load load);

  /// A workload instance and its neighbours: busy_share[c] of core c's time goes to a co-tenant.
  /// Forgets the schedule.
  void set_instance(SliceProfiles profiles, std::vector<double> busy_share);

  /// Places every slice; throws std::invalid_argument on a wrong length, a core that is no worker
  /// or a node that does not exist.
  double place(std::span<const std::int32_t> cores, std::span<const std::int32_t> nodes);

  /// Moves one slice and returns the throughput; the same bits as place() of the whole schedule.
  double move(int slice, int core, int node);

  /// Throughput for every core that could take `slice` (its data on that core's node), NaN where
  /// the core is no worker. The schedule is as before afterwards.
  std::vector<double> marginal(int slice);

  double throughput() const { return throughput_; }
  int core_of(int slice) const { return core_[static_cast<std::size_t>(slice)]; }
  int node_of(int slice) const { return node_[static_cast<std::size_t>(slice)]; }
  int slices() const { return profiles_.slices; }
  /// Steps that the last contention fixed point took; it gives up after `contention_limit`.
  int contention_steps() const { return steps_; }
  static constexpr int contention_limit = 200;
  const Machine& machine() const { return machine_; }
  Snapshot snapshot() const;

 private:
  struct SliceState {
    double fixed_ns = 0;  // per workload query: computation, private cache, LLC, page walks
    double llc_ns = 0;    // the part of fixed_ns spent waiting for the LLC
    double walk_ns = 0;   // the part of fixed_ns spent in page walks
    double dram_ns = 0;   // per workload query, at idle memory
    double read_bytes = 0, write_bytes = 0;  // from and to memory, per workload query
    double dram_loads = 0;                   // dependent misses served by memory
    double dtlb_misses = 0;
  };

  double pace(std::size_t slice) const;
  void check_position(int slice, int core, int node) const;
  void refresh(const std::vector<std::uint8_t>& core_changed,
               const std::vector<std::uint8_t>& llc_changed);
  double characteristic_time(std::span<const int> members, double capacity_lines);
  void refresh_slice(std::size_t slice);
  void sum_demands();
  /// What the workers complete at the present latencies of memory, queries per nanosecond.
  double serve();
  /// Sets use_ to the shares of the bandwidths that the present rates of the cores take.
  void measure_use();
  /// Sets the latencies of memory to those under a use.
  void load_memory(const std::vector<double>& use);
  void solve_contention();

  Machine machine_;
  Load load_;
  LoadedLatency dram_latency_;
  LoadedLatency link_latency_;
  SliceProfiles profiles_;
  std::vector<double> slowdown_;  // per core: 1 / (1 - busy share)

  std::vector<int> core_, node_, llc_;        // per slice
  std::vector<SliceState> state_;             // per slice
  std::vector<double> core_share_;            // per core: probability that a query goes there
  std::vector<double> core_pages_;            // per core
  std::vector<double> core_time_, llc_time_;  // characteristic times of the caches
  std::vector<double> beyond_llc_;  // [slice][class]: probability that a touch goes to memory

  double throughput_ = 0;
  int steps_ = 0;
  std::vector<double> core_rate_;   // per core: million queries per second
  std::vector<double> service_ns_;  // per core: mean service time with contention
  std::vector<double> multiplier_;  // [core's node][memory's node]: loaded / idle latency

  // Scratch space, so that a step allocates nothing.
  std::vector<double> scratch_lines_, scratch_rates_, demand_, dram_demand_, read_bytes_,
      written_bytes_;
  std::vector<double> total_;
  // Of nodes, then of links [from socket][to socket].
  std::vector<double> use_, smooth_use_, step_, last_change_, latency_;
  std::vector<std::size_t> active_;  // cores that serve a slice
  std::vector<int> members_;
  std::vector<std::uint8_t> core_changed_, llc_changed_;
};

}  // namespace pmoss::analytic
