// How long the streams' lines and pages stay in the caches, and what their touches wait for: the
// interface of the two solvers, and what both have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "analytic/core_map.hpp"
#include "analytic/decay.hpp"
#include "analytic/instance.hpp"
#include "analytic/mesh_map.hpp"
#include "analytic/residence.hpp"
#include "analytic/stream_set.hpp"
#include "machine/machine.hpp"

namespace pmoss::analytic {

/// What one stream asks for, per query of the workload, on one core.
struct Demand {
  double llc_ns = 0;                         // waiting for the last level
  double walk_ns = 0;                        // translating addresses
  double other_ns = 0;                       // waiting for lines modified in other domains
  double dram_ns = 0;                        // waiting for memory while that is idle
  double read_bytes = 0, written_bytes = 0;  // from and to memory
  double dtlb_misses = 0;
};

/// Lines that co-tenants bring into each last-level domain and never use again, per ns.
using PassingLines = std::vector<double>;

/// Touches of a stream's lines that have left the last level, per query of the workload.
struct PastSums {
  double loads = 0, misses = 0, write_misses = 0;
};

/// What a solver reads. All of it must outlive the solver.
struct CacheInputs {
  const Machine& machine;
  const CoreMap& map;
  const MeshMap& mesh;
  const Instance& instance;
  const StreamSet& streams;
  const PassingLines& passing_per_ns;  // per domain
};

/// Solves private caches first, then the domains that see what these do not keep.
class Caches {
 public:
  explicit Caches(const CacheInputs& inputs)
      : machine_(inputs.machine),
        map_(inputs.map),
        mesh_(inputs.mesh),
        instance_(inputs.instance),
        streams_(inputs.streams),
        passing_per_ns_(inputs.passing_per_ns),
        llc_sets_(SetSpread::of(inputs.machine.llc_ways)),
        private_time_(inputs.map.physical_cores, 0.0),
        l2_ns_(inputs.machine.l2_ns),
        beyond_l2_ns_(std::max(0.0, inputs.machine.llc_ns - inputs.machine.l2_ns)),
        dram_ns_(inputs.machine.dram_ns.data()),
        nodes_(inputs.map.nodes()) {}
  virtual ~Caches() = default;
  Caches(const Caches&) = delete;
  Caches& operator=(const Caches&) = delete;

  /// Prepares a new instance.
  virtual void set_instance() = 0;
  /// Makes room for the streams of a new schedule.
  virtual void start() = 0;
  /// Marks the domains where a stream's waits change because owners of its lines moved elsewhere,
  /// which its reach need not show. Called once the reach is measured, before anything is solved.
  virtual void mark_new_owners(StreamSet&) {}
  /// Solves the private caches and the translation of one physical core that has streams.
  virtual void solve_core(Index physical) = 0;
  /// Solves one last-level domain that has streams, and fills their demands. `ns_per_unit`: of the
  /// time that rates are counted in; see StreamSet::measure_reach().
  virtual void solve_domain(Index domain, double ns_per_unit) = 0;
  /// What a stream misses in the last level.
  virtual PastSums past_sums(Index stream) const { return sum_past(stream); }
  /// Fills `past` for the first classes of a stream's row: the probability that a line of the class
  /// has left the last level.
  virtual void past_llc(Index stream, std::span<double> past) const = 0;

  const Demand& demand(Index stream) const { return demand_[stream]; }
  /// [stream]
  const Demand* demands() const { return demand_.data(); }

 protected:
  /// past_sums() of past_llc().
  PastSums sum_past(Index stream) const;
  /// Turns the sums over a stream's row into its demand for the last level and for memory.
  void wait_for(Index stream, const RowSums& sums);
  /// What a touch waits whose page only the second level of the TLB holds. Where the machine has no
  /// first level, 0.
  double second_tlb_ns() const { return machine_.dtlb_pages > 0.0 ? machine_.tlb_ns : 0.0; }

  const Machine& machine_;
  const CoreMap& map_;
  const MeshMap& mesh_;
  const Instance& instance_;
  const StreamSet& streams_;
  const PassingLines& passing_per_ns_;
  const SetSpread llc_sets_;
  std::vector<Demand> demand_;        // per stream
  mutable std::vector<double> past_;  // scratch space of sum_past()
  std::vector<double> private_time_;  // per physical core: how long a line stays

 private:
  // What wait_for() reads of the machine.
  const double l2_ns_, beyond_l2_ns_;
  const double* const dram_ns_;
  const Index nodes_;
};

inline void Caches::wait_for(Index i, const RowSums& sums) {
  constexpr double line_bytes = 64.0;
  const Stream& stream = streams_[i];
  const double mine = stream.share * stream.part;
  Demand& demand = demand_[i];
  // Between the points of a table a sum near 0 may come out below it.
  const double near = std::max(0.0, sums.near), far = std::max(0.0, sums.far);
  // Every touch has waited for the private cache already.
  demand.llc_ns = mine * (near * beyond_l2_ns_ - far * l2_ns_);
  if (!mesh_.empty()) demand.llc_ns += mine * (near + far) * mesh_.line_ns(stream);
  demand.dram_ns = mine * far * dram_ns_[map_.node_of_core[stream.core] * nodes_ + stream.node];
  demand.read_bytes = mine * line_bytes * std::max(0.0, sums.fetched);
  demand.written_bytes = mine * line_bytes * std::max(0.0, sums.dirtied);
}

}  // namespace pmoss::analytic
