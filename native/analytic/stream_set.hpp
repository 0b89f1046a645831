// The streams of touches that a schedule makes, and where each of them competes for caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analytic/core_map.hpp"
#include "analytic/instance.hpp"
#include "machine/placement.hpp"

namespace pmoss::analytic {

/// A schedule of all slices that has been checked.
struct Schedule {
  Routing routing = Routing::core;
  DataPlacement data = DataPlacement::slice;
  std::vector<int> core, node;  // per slice; cores are -1 unless the routing is by core

  /// Every slice has its own core and its own node, so that one slice can move alone.
  bool by_slice() const { return routing == Routing::core && data == DataPlacement::slice; }
};

/// Queries of one slice that touch lines of one slice on one core, or on several cores that are
/// alike in every respect. Where slices are routed by core and share no lines, stream s is slice s.
struct Stream {
  Index executing, touched;  // slices
  Index core;                // the first of those alike
  int copies;                // how many are alike
  int threads;               // of these, on one physical core
  Index node;                // of the lines
  double queries;            // probability that a query of the slice goes to one such core
  double share;              // of the touches of the slice's lines, by one such core
  double part;               // of the slice's lines, on that node
};

/// Where a stream's touches compete and meet other writers.
struct Reach {
  double pace = 0;    // queries of the workload per unit of the core's time
  double own = 0;     // touches through this private cache, per touch of the whole workload
  double domain = 0;  // through this last-level domain
  double all = 0;
  bool operator==(const Reach&) const = default;
};

/// The streams of one schedule. Marks which physical cores and domains a change concerns, so that
/// only these are solved again.
class StreamSet {
 public:
  /// All arguments must outlive this object. `stay_share` of the pages that were placed by first
  /// touch stay where they are; the others have moved to those that use them.
  StreamSet(const CoreMap& map, const Instance& instance, double stay_share);

  /// Forgets the schedule.
  void clear();
  bool empty() const { return streams_.empty(); }

  /// Makes the streams of a schedule and marks everything as changed. Returns false where the
  /// streams are those of before on other cores and nodes.
  bool place(const Schedule& schedule);
  /// Moves one slice of a schedule that places each by itself; marks what that changes, and nothing
  /// else.
  void move(Index slice, Index core, Index node);
  /// The same beside what is marked already.
  void shift(Index slice, Index core, Index node);
  /// Computes the reach of the streams on changed cores, and marks what changes with it. With
  /// `own_pace` each core works as fast as it can; else all follow the workload. Afterwards the
  /// changed cores are in ascending order.
  void measure_reach(bool own_pace);

  std::size_t size() const { return streams_.size(); }
  const Stream& operator[](Index stream) const { return streams_[stream]; }
  const Reach& reach(Index stream) const { return reach_[stream]; }
  Index physical_of(const Stream& stream) const { return map_.physical_of_core[stream.core]; }
  Index domain_of(const Stream& stream) const { return map_.domain_of(stream.core, stream.node); }
  /// Whether a stream is the first that its executing slice has on its core.
  bool begins_query(Index stream) const;
  /// Whether some lines are touched on several cores.
  bool shares_lines() const { return shares_lines_; }

  // Numbers of streams, ascending.
  const std::vector<Index>& of_physical(Index core) const { return of_physical_[core]; }
  const std::vector<Index>& of_domain(Index domain) const { return of_domain_[domain]; }
  /// Those that touch a slice's lines.
  const std::vector<Index>& touching(Index slice) const { return touching_[slice]; }

  /// Probability that a query goes to a core; 0 for a core that another one stands for.
  double core_share(Index core) const { return core_share_[core]; }
  /// Calls visit(core, leader) for each core that `leader` stands for, itself included.
  template <typename Visit>
  void for_each_alike(Visit visit) const {
    if (leaders_.empty()) return;
    for (Index core = 0; core < leader_.size(); ++core) {
      if (leader_[core] != none) visit(core, leader_[core]);
    }
  }

  bool core_changed(Index physical) const { return core_changed_[physical] != 0; }
  /// Those physical cores; mark_core() adds to them behind the others.
  const std::vector<Index>& changed_cores() const { return changed_cores_; }
  bool domain_changed(Index domain) const { return domain_changed_[domain] != 0; }
  void mark_core(Index physical) {
    if (core_changed_[physical] != 0) return;
    core_changed_[physical] = 1;
    changed_cores_.push_back(physical);
  }
  void mark_domain(Index domain) { domain_changed_[domain] = 1; }
  /// Takes every mark away.
  void forget_changes();

 private:
  static constexpr Index none = ~Index{0};

  void make_streams(const Schedule& schedule);
  void find_leaders(const Schedule& schedule);
  void add_queries(const Schedule& schedule, Index slice);
  void add_stream(Stream stream);
  void fill_homes(const Schedule& schedule, Index slice, std::vector<double>& parts) const;
  void shift_stream(Index stream, Index slice, Index core, Index node);
  void list(Index stream, bool enter);
  void share_cores();
  Reach reach_of(const Stream& stream, bool own_pace) const;
  double pace(const Stream& stream, bool own_pace) const {
    const double share = core_share_[stream.core];
    return own_pace && share > 0.0 ? 1.0 / share : 1.0;
  }
  void set_reach(Index stream, const Reach& reach);

  const CoreMap& map_;
  const Instance& instance_;
  double stay_share_;
  bool by_slice_ = false;  // the streams are those of slices with cores and nodes
  bool shares_lines_ = false;
  std::vector<Stream> streams_;
  std::vector<Reach> reach_;                   // per stream
  std::vector<std::vector<Index>> touching_;   // per slice: streams that touch it
  std::vector<std::vector<Index>> executing_;  // per slice: streams that its queries make
  std::vector<std::vector<Index>> of_physical_, of_domain_;
  std::vector<double> core_share_;
  std::vector<std::uint8_t> core_changed_, domain_changed_;  // per physical core, per domain
  std::vector<Index> changed_cores_;

  // Workers with the same node, domain and number of hardware threads are alike. One leads them.
  std::vector<Index> leader_;   // per core
  std::vector<Index> leaders_;  // cores
  std::vector<int> followers_;  // per leader, itself included
  std::vector<int> threads_;    // per physical core: workers on it
  std::vector<int> node_workers_;
  // While streams are made.
  std::vector<double> at_home_;  // per slice: share of the touches by its own queries
  std::vector<std::vector<SharedTouches>> elsewhere_;  // per slice: its queries on other slices
  std::vector<std::vector<double>> homes_;             // per slice: share of its lines on each node
};

}  // namespace pmoss::analytic
