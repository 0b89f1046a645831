// The analytic backend: the throughput of a schedule in microseconds, and after one move in less.
// It combines demand profiles, cache sharing (Che's approximation) and a contention fixed point.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "analytic/class_caches.hpp"
#include "analytic/contention.hpp"
#include "analytic/core_map.hpp"
#include "analytic/instance.hpp"
#include "analytic/mesh_map.hpp"
#include "analytic/profile.hpp"
#include "analytic/stream_set.hpp"
#include "analytic/table_caches.hpp"
#include "machine/interference.hpp"
#include "machine/load.hpp"
#include "machine/machine.hpp"
#include "machine/placement.hpp"
#include "machine/snapshot.hpp"

namespace pmoss::analytic {

struct ModelOptions {
  bool dispatched = false;  ///< queries pass the machine's routers, which take dispatch_ns for each
  /// The operating system has moved the pages that it placed itself; see NumaBalancing.
  bool numa_balancing = false;
};

/// Some slices with their cores and nodes; as many of each.
struct SlicePlaces {
  std::span<const std::int32_t> slices, cores, nodes;
};

/// A schedule makes streams of touches (StreamSet); a solver says how long their lines stay in the
/// caches (TableCaches, ClassCaches); their demands meet in memory (Contention). After a move only
/// what it changes is solved again.
class Model {
 public:
  /// Throws std::invalid_argument for an impossible machine or load.
  Model(Machine machine, Load load, ModelOptions options = {});
  // The parts refer to each other.
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// A workload instance and its co-tenants. Forgets the schedule. Throws std::invalid_argument for
  /// impossible co-tenants.
  void set_instance(SliceProfiles profiles, const Interference& interference);

  /// Other co-tenants of the same instance. Forgets the schedule, as set_instance() does, and gives
  /// the same bits in a small part of its time. Throws std::invalid_argument for impossible ones.
  void set_co_tenants(const Interference& interference);

  /// Other co-tenants of the same instance under the same schedule, which may be none yet. Gives
  /// the same bits as a model made anew with them. Throws std::invalid_argument for impossible
  /// ones.
  double set_interference(const Interference& interference);

  /// Both at once: other co-tenants, and places of some slices, each slice once. Nothing is solved
  /// in between. `copying`: data that are copied meanwhile, until the next call that names
  /// co-tenants; null: none. Throws std::invalid_argument as the two do, and without a schedule of
  /// slices that are placed each by itself; then nothing has changed.
  double change(const Interference& interference, const SlicePlaces& places,
                const Copying* copying = nullptr);

  /// From now on this share of the load's queries arrives; place() comes next. Throws
  /// std::invalid_argument unless it is above 0 and finite, and 1 where the load is not open.
  void offer(double share);

  /// Places every slice. Throws std::invalid_argument on a wrong length, a core that is no worker,
  /// or a node that does not exist. Also where a node without workers is to serve a slice. What
  /// differs in one slice from the schedule before takes as long as move(), the same no time.
  double place(const Placement& placement);

  /// Moves one slice and returns the throughput; the same bits as place() of the whole schedule.
  /// Where slices are not routed by core, as slow as that.
  double move(int slice, int core, int node);

  /// Throughput for every core that could take `slice` (its data on that core's node), NaN where
  /// the core is no worker. The schedule is as before afterwards.
  std::vector<double> marginal(int slice);

  double throughput() const { return throughput_; }
  /// How fast data are copied; 0 where none are.
  double copied_gb_per_s() const { return contention_.copied_gb_per_s(); }
  int core_of(int slice) const { return schedule_.core[static_cast<Index>(slice)]; }
  int node_of(int slice) const { return schedule_.node[static_cast<Index>(slice)]; }
  int slices() const { return instance_.profiles.slices; }
  /// Steps that the last contention fixed point took; it gives up after `contention_limit`.
  int contention_steps() const { return contention_.steps(); }
  static constexpr int contention_limit = Contention::step_limit;
  const Machine& machine() const { return machine_; }
  Snapshot snapshot() const;
  /// [slice] million queries per second, as in snapshot(). Throws std::invalid_argument without a
  /// schedule.
  std::vector<double> slice_throughput() const;
  /// The share of the queries that are answered within a time, above 0, of the present schedule.
  /// Throws std::invalid_argument for another one, and without a schedule.
  double share_within(double limit_us) const;

 private:
  const Caches& caches() const {
    return streams_.shares_lines() ? static_cast<const Caches&>(class_caches_) : table_caches_;
  }
  Caches& caches() { return const_cast<Caches&>(std::as_const(*this).caches()); }

  void check_slice(int slice) const;
  void check_position(Routing routing, int slice, int core, int node) const;
  bool take_interference(const Interference& interference);
  std::size_t changed_slices(const Placement& placement) const;
  void start_over();
  void refresh();
  double mix_rate() const;
  void solve_cores();
  void solve_domains(bool passing_only, double ns_per_unit);
  void sum_demands();
  void sum_core(Index physical);
  double active_cores() const;
  double rate_of(const Stream& stream) const;
  void count_stream(Index stream, Snapshot& result) const;
  struct Responses {
    std::vector<double> mean_us, deviation_us;  // per core; the latter of a saturated load alone
  };
  Responses responses() const;
  void add_latencies(Snapshot& result) const;

  const Machine machine_;
  const Load load_;
  const ModelOptions options_;
  const CoreMap map_;
  const MeshMap mesh_;
  Instance instance_;
  PassingLines passing_per_ns_;
  bool passing_ = false;  // some co-tenant brings lines in
  Schedule schedule_;
  StreamSet streams_;
  TableCaches table_caches_;
  ClassCaches class_caches_;
  Demands demands_;
  Contention contention_;
  double throughput_ = 0;
  bool offered_anew_ = false;  // since the schedule was solved
};

}  // namespace pmoss::analytic
