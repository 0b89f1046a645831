// The analytic backend: demand profiles, cache sharing (Che's approximation) and a contention fixed
// point give the throughput of a schedule in microseconds, and after moving one slice in less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analytic/contention.hpp"
#include "analytic/profile.hpp"
#include "analytic/residence.hpp"
#include "analytic/slice_tables.hpp"
#include "machine/load.hpp"
#include "machine/machine.hpp"
#include "machine/neighbours.hpp"
#include "machine/numa_balancing.hpp"
#include "machine/placement.hpp"
#include "machine/snapshot.hpp"

namespace pmoss::analytic {

struct ModelOptions {
  bool dispatched = false;  ///< queries pass the machine's routers, which take dispatch_ns for each
  /// The operating system has moved the pages that it placed itself; see NumaBalancing.
  bool numa_balancing = false;
};

class Model {
 public:
  /// Throws std::invalid_argument for an impossible machine or load.
  Model(Machine machine, Load load, ModelOptions options = {});

  /// A workload instance and its neighbours. Forgets the schedule. Throws std::invalid_argument for
  /// impossible neighbours.
  void set_instance(SliceProfiles profiles, const Neighbours& neighbours);

  /// Places every slice; throws std::invalid_argument on a wrong length, a core that is no worker,
  /// a node that does not exist or, where a slice's node is to serve it, has no worker.
  double place(const Placement& placement);

  /// Moves one slice and returns the throughput; the same bits as place() of the whole schedule.
  /// Where slices are not routed by core, as slow as that.
  double move(int slice, int core, int node);

  /// Throughput for every core that could take `slice` (its data on that core's node), NaN where
  /// the core is no worker. The schedule is as before afterwards.
  std::vector<double> marginal(int slice);

  double throughput() const { return throughput_; }
  int core_of(int slice) const { return core_[static_cast<std::size_t>(slice)]; }
  int node_of(int slice) const { return node_[static_cast<std::size_t>(slice)]; }
  int slices() const { return profiles_.slices; }
  /// Steps that the last contention fixed point took; it gives up after `contention_limit`.
  int contention_steps() const { return contention_.steps(); }
  static constexpr int contention_limit = Contention::step_limit;
  const Machine& machine() const { return machine_; }
  Snapshot snapshot() const;

 private:
  /// Queries of one slice that touch lines of one slice on one core, or on several that are alike
  /// in every respect. Where slices are routed by core, stream number s is slice s at home.
  struct Stream {
    int executing, touched;
    int core;        // the first of those alike
    int copies;      // how many are alike
    int threads;     // of these, on one physical core
    int node;        // of the lines
    double queries;  // probability that a query of the slice goes to one such core
    double share;    // of the touches of the slice's lines, by one such core
    double part;     // of the slice's lines, on that node
  };
  /// Where a stream's touches compete and meet other writers.
  struct Reach {
    double pace = 0;    // queries of the workload per unit of the core's time
    double own = 0;     // touches through this private cache, per touch of the whole workload
    double domain = 0;  // through this last-level domain
    double all = 0;
    bool operator==(const Reach&) const = default;
  };
  /// Per query of the workload, of one core.
  struct Demand {
    double llc_ns = 0;                         // waiting for the last level
    double walk_ns = 0;                        // translating addresses
    double other_ns = 0;                       // waiting for lines modified in other domains
    double dram_ns = 0;                        // waiting for memory while that is idle
    double read_bytes = 0, written_bytes = 0;  // from and to memory
    double dtlb_misses = 0;
  };

  void check_position(int slice, int core, int node) const;
  std::size_t domain_of(const Stream& stream) const;
  bool begins_query(std::size_t stream) const;
  std::size_t classes_of(const std::vector<int>& streams) const;
  double past_private(std::size_t stream, std::size_t k) const;
  double past_llc(std::size_t stream, std::size_t k) const;
  double modified_ns(const Stream& stream) const;

  void start_over();
  std::vector<double> homes_of(std::size_t slice) const;
  void make_streams();
  void refresh();
  void measure_reach();
  void solve_private(std::size_t physical);
  void solve_pages(std::size_t physical);
  void solve_domain(std::size_t domain);
  void look_up_core(std::size_t physical);
  void look_up_domain(std::size_t domain);
  void share_lines(std::size_t stream);
  void refresh_stream(std::size_t stream);
  void wait_for(std::size_t stream, const RowSums& sums);
  void sum_demands();

  Machine machine_;
  Load load_;
  ModelOptions options_;
  Contention contention_;
  SliceProfiles profiles_;
  std::vector<std::size_t> llc_of_;     // [core][node]
  std::vector<std::size_t> physical_;   // per core, without gaps
  std::vector<double> passing_per_ns_;  // per domain: lines of neighbours
  bool passing_ = false;
  // Per class, in rows of one slice that are padded.
  std::vector<std::size_t> row_;
  std::vector<double> lines_, rates_, waits_, touches_, dependent_, dirty_share_, locks_;
  // Per slice and query of the workload.
  std::vector<double> computation_ns_, l2_ns_;
  bool shared_lines_ = false;  // some lines are touched on several cores; if none, tables serve
  SliceTables tables_;         // only where slices share no lines
  SetSpread llc_sets_;

  Routing routing_ = Routing::core;
  DataPlacement data_ = DataPlacement::slice;
  bool by_slice_ = false;         // the streams are those of slices with cores and nodes
  std::vector<int> core_, node_;  // per slice
  std::vector<Stream> streams_;
  std::vector<int> alike_;                   // per core: the one that stands for it, -1 if none
  std::vector<std::size_t> first_state_;     // per stream, in the arrays per class
  std::vector<std::vector<int>> touching_;   // per slice: streams that touch it
  std::vector<std::vector<int>> executing_;  // per slice: streams that its queries make
  std::vector<Reach> reach_;                 // per stream
  std::vector<Demand> demand_;               // per stream
  std::vector<double> core_share_;           // per core: probability that a query goes there
  std::vector<double> private_time_;         // per physical core: how long a line stays
  std::vector<double> domain_time_;          // of a victim cache: beyond the private time
  double ns_per_unit_ = 0;                   // of the time that rates are counted in
  // Per stream and class: probability that a line was not touched for so long that it has left.
  std::vector<double> past_l2_, past_llc_;
  Demands demands_;

  double throughput_ = 0;

  // Of streams, in their order.
  std::vector<std::vector<int>> of_physical_, of_domain_;

  /// Of a core, where lines are touched on one core only.
  struct CoreTimes {
    double pace = 1, offset = 0;            // and its logarithm, in points of the tables
    TablePosition left_l2;                  // when lines leave the private cache
    std::array<TablePosition, 2> left_llc;  // and the last level: crowded and sparse sets
    std::array<double, 2> left_llc_point;
    TablePosition now;  // scratch space of look_up_domain()
    double now_slope = 1;
  };
  std::vector<CoreTimes> times_;
  std::vector<std::array<double, 3>> search_start_;    // per physical core: L2, two TLBs
  std::vector<std::array<double, 2>> left_llc_point_;  // per stream
  // Scratch space of look_up_domain().
  std::vector<std::size_t> domain_cores_;
  std::array<TableSum, SliceTables::points> domain_sum_{};
  std::array<std::uint8_t, SliceTables::points> domain_sum_known_{};

  // Scratch space, so that a step allocates nothing.
  Residents residents_;
  std::vector<double> shared_past_l2_, shared_past_llc_;     // of one row
  std::vector<std::uint8_t> core_changed_, domain_changed_;  // per physical core, per domain
};

}  // namespace pmoss::analytic
