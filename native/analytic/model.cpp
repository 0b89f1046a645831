#include "analytic/model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "machine/numa_balancing.hpp"

namespace pmoss::analytic {
namespace {

// Lines that pass through a cache without being used again take room in proportion to time. Time is
// counted in queries. So the caches are solved this many times, each for the throughput of the last
// solution.
constexpr int passing_rounds = 4;

[[noreturn]] void refuse(const std::string& text) { throw std::invalid_argument(text); }

Machine completed(Machine machine) {
  machine.complete();
  return machine;
}

}  // namespace

Model::Model(Machine machine, Load load, ModelOptions options)
    : machine_(completed(std::move(machine))),
      load_((load.validate(), load)),
      options_(options),
      map_(machine_),
      mesh_(machine_, map_),
      streams_(map_, instance_, options.numa_balancing ? NumaBalancing{}.stay_share : 1.0),
      table_caches_({machine_, map_, mesh_, instance_, streams_, passing_per_ns_}),
      class_caches_({machine_, map_, mesh_, instance_, streams_, passing_per_ns_}),
      contention_(machine_, load_, options.dispatched) {}

void Model::set_instance(SliceProfiles profiles, const Interference& interference) {
  validate(interference, machine_);
  // Whatever fails from here on, no schedule of the old instance is left.
  streams_.clear();
  schedule_.core.clear();
  schedule_.node.clear();
  instance_.set(std::move(profiles), machine_);
  table_caches_.set_instance();
  class_caches_.set_instance();
  set_co_tenants(interference);
}

void Model::set_co_tenants(const Interference& interference) {
  validate(interference, machine_);
  take_interference(interference);
  schedule_.core.assign(instance_.slices(), -1);
  schedule_.node.assign(instance_.slices(), -1);
  streams_.clear();
  throughput_ = 0.0;
}

/// Keeps what co-tenants take, and marks the domains that see other lines pass than before. Says
/// whether there are any.
bool Model::take_interference(const Interference& interference) {
  contention_.set_interference(interference);
  contention_.set_copying(nullptr);
  PassingLines passing = interference.llc_lines_per_ns;
  passing.resize(map_.domains, 0.0);
  bool changed = false;
  for (Index domain = 0; domain < map_.domains; ++domain) {
    if (domain < passing_per_ns_.size() && passing[domain] == passing_per_ns_[domain]) continue;
    streams_.mark_domain(domain);
    changed = true;
  }
  passing_per_ns_.swap(passing);
  passing_ = std::any_of(passing_per_ns_.begin(), passing_per_ns_.end(),
                         [](double lines) { return lines > 0.0; });
  return changed;
}

double Model::set_interference(const Interference& interference) {
  validate(interference, machine_);
  streams_.forget_changes();
  const bool passes = take_interference(interference);
  if (streams_.empty()) return throughput_;
  if (passes && streams_.shares_lines()) {
    start_over();  // what is shared waits for the caches of other domains
  } else {
    refresh();
  }
  return throughput_;
}

double Model::change(const Interference& interference, const SlicePlaces& places,
                     const Copying* copying) {
  validate(interference, machine_);
  if (streams_.empty() || !schedule_.by_slice()) {
    refuse("no schedule of slices with a core and a node each: call place() first");
  }
  const std::size_t count = places.slices.size();
  if (places.cores.size() != count || places.nodes.size() != count) {
    refuse(std::to_string(count) + " slices, " + std::to_string(places.cores.size()) +
           " cores and " + std::to_string(places.nodes.size()) + " nodes: must be as many");
  }
  for (std::size_t i = 0; i < count; ++i) {
    check_slice(places.slices[i]);
    check_position(schedule_.routing, places.slices[i], places.cores[i], places.nodes[i]);
  }
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  if (copying != nullptr && (copying->source >= nodes || copying->target >= nodes)) {
    refuse("a copy from node " + std::to_string(copying->source) + " to node " +
           std::to_string(copying->target) + ": nodes are 0 to " + std::to_string(nodes - 1));
  }
  streams_.forget_changes();
  const bool passes = take_interference(interference);
  contention_.set_copying(copying);
  for (std::size_t i = 0; i < count; ++i) {
    const auto s = static_cast<Index>(places.slices[i]);
    schedule_.core[s] = places.cores[i];
    schedule_.node[s] = places.nodes[i];
    streams_.shift(s, static_cast<Index>(places.cores[i]), static_cast<Index>(places.nodes[i]));
  }
  if (passes && streams_.shares_lines()) {
    start_over();
  } else {
    refresh();
  }
  return throughput_;
}

void Model::check_slice(int slice) const {
  if (slice >= 0 && slice < slices()) return;
  refuse("slice " + std::to_string(slice) + ": must lie between 0 and " +
         std::to_string(slices() - 1));
}

void Model::check_position(Routing routing, int slice, int core, int node) const {
  const bool by_core = routing == Routing::core;
  if (by_core &&
      (core < 0 || core >= machine_.cores() || machine_.is_worker[static_cast<Index>(core)] == 0)) {
    refuse("slice " + std::to_string(slice) + ": core " + std::to_string(core) +
           " is not a worker of this machine");
  }
  if (node < 0 || node >= machine_.nodes()) {
    refuse("slice " + std::to_string(slice) + ": node " + std::to_string(node) +
           " does not exist; nodes are 0 to " + std::to_string(machine_.nodes() - 1));
  }
  if (routing != Routing::node) return;
  for (const Index worker : map_.workers) {
    if (map_.node_of_core[worker] == static_cast<Index>(node)) return;
  }
  refuse("slice " + std::to_string(slice) + ": node " + std::to_string(node) +
         " has no worker to serve it");
}

void Model::offer(double share) {
  if (!(share > 0.0) || !std::isfinite(share)) {
    refuse("a share of " + std::to_string(share) + " of the load: must be above 0 and finite");
  }
  if (share != 1.0 && load_.kind != Load::Kind::open) {
    refuse("a share of " + std::to_string(share) + " of the load: must be 1 unless it is open");
  }
  contention_.set_offered(share * load_.offered_mq_per_s);
  offered_anew_ = true;
}

/// How many slices a placement moves; all of them where the schedule at hand is of another kind, or
/// of another load.
std::size_t Model::changed_slices(const Placement& placement) const {
  const std::size_t n = instance_.slices();
  if (streams_.empty() || offered_anew_ || !schedule_.by_slice() ||
      schedule_.routing != placement.routing || schedule_.data != placement.data) {
    return n;
  }
  std::size_t changed = 0;
  for (std::size_t s = 0; s < n; ++s) {
    changed += schedule_.core[s] != placement.cores[s] || schedule_.node[s] != placement.nodes[s];
  }
  return changed;
}

double Model::place(const Placement& placement) {
  const std::size_t n = instance_.slices();
  if (n == 0) refuse("no workload instance: call set_instance() first");
  const std::size_t cores = placement.cores.size();
  require_modelled(placement.data);
  const bool by_core = placement.routing == Routing::core;
  if (placement.nodes.size() != n || (cores != n && (by_core || cores != 0))) {
    refuse("a schedule of " + std::to_string(cores) + " cores and " +
           std::to_string(placement.nodes.size()) + " nodes: must place exactly " +
           std::to_string(n) + " slices");
  }
  const auto core_of = [&](std::size_t slice) { return cores == 0 ? -1 : placement.cores[slice]; };
  for (std::size_t s = 0; s < n; ++s) {
    check_position(placement.routing, static_cast<int>(s), core_of(s), placement.nodes[s]);
  }
  const std::size_t changed = changed_slices(placement);
  if (changed == 0) return throughput_;
  if (changed == 1 && n > 1) {
    std::size_t s = 0;
    while (schedule_.core[s] == placement.cores[s] && schedule_.node[s] == placement.nodes[s]) ++s;
    return move(static_cast<int>(s), placement.cores[s], placement.nodes[s]);
  }
  schedule_.routing = placement.routing;
  schedule_.data = placement.data;
  for (std::size_t s = 0; s < n; ++s) {
    schedule_.core[s] = core_of(s);
    schedule_.node[s] = placement.nodes[s];
  }
  contention_.set_hint_faults(options_.numa_balancing && schedule_.data == DataPlacement::loader);
  start_over();
  return throughput_;
}

double Model::move(int slice, int core, int node) {
  check_slice(slice);
  const auto s = static_cast<Index>(slice);
  if (streams_.empty()) refuse("no schedule to change: call place() first");
  check_position(schedule_.routing, slice, core, node);
  if (schedule_.core[s] == core && schedule_.node[s] == node) return throughput_;
  schedule_.core[s] = core;
  schedule_.node[s] = node;
  if (schedule_.by_slice()) {
    streams_.move(s, static_cast<Index>(core), static_cast<Index>(node));
    refresh();
  } else {
    start_over();
  }
  return throughput_;
}

void Model::start_over() {
  offered_anew_ = false;
  if (streams_.place(schedule_)) caches().start();
  demands_.clear(map_.cores(), map_.nodes());
  refresh();
}

std::vector<double> Model::marginal(int slice) {
  check_slice(slice);
  const int core = core_of(slice);
  const int node = node_of(slice);
  std::vector<double> result(map_.cores(), std::numeric_limits<double>::quiet_NaN());
  for (const Index worker : map_.workers) {
    result[worker] = move(slice, static_cast<int>(worker), machine_.node_of_core[worker]);
  }
  move(slice, core, node);
  return result;
}

/// Adds up the demands of a core's streams, query by query of its slices.
void Model::sum_core(Index physical) {
  const Demand* const demands = caches().demands();
  const std::vector<Index>& list = streams_.of_physical(physical);
  for (std::size_t at = 0; at < list.size();) {
    const Index c = streams_[list[at]].core;
    double fixed_ns = demands_.fixed_ns[c], square_ns2 = demands_.square_ns2[c];
    MemoryDemand* const memories = &demands_.memory[c * map_.nodes()];
    while (at < list.size() && streams_[list[at]].core == c) {
      const Stream& first = streams_[list[at]];
      const Index e = first.executing;
      const Instance::Query& query = instance_.queries[e];
      double fixed = first.queries * query.fixed_ns;
      double stalls = 0.0;
      for (; at < list.size() && streams_[list[at]].executing == e; ++at) {
        const Demand& demand = demands[list[at]];
        fixed += demand.llc_ns + demand.other_ns + demand.walk_ns;
        stalls += demand.dram_ns;
        MemoryDemand& memory = memories[streams_[list[at]].node];
        memory.stall_ns += demand.dram_ns;
        memory.read_bytes += demand.read_bytes;
        memory.written_bytes += demand.written_bytes;
      }
      fixed_ns += fixed;
      const double share = first.queries * query.share;
      if (share > 0.0) square_ns2 += query.spread * (fixed + stalls) * (fixed + stalls) / share;
    }
    demands_.fixed_ns[c] = fixed_ns;
    demands_.square_ns2[c] = square_ns2;
  }
}

/// The demands of the cores that changed: of those whose streams did.
void Model::sum_demands() {
  for (Index domain = 0; domain < map_.domains; ++domain) {
    if (!streams_.domain_changed(domain)) continue;
    for (const Index i : streams_.of_domain(domain)) {
      streams_.mark_core(streams_.physical_of(streams_[i]));
    }
  }
  for (const Index physical : streams_.changed_cores()) {
    for (const Index core : map_.cores_of_physical[physical]) {
      demands_.clear_core(core, map_.nodes(), streams_.core_share(core));
    }
    sum_core(physical);
  }
  streams_.for_each_alike(
      [this](Index core, Index leader) { demands_.copy_core(leader, core, map_.nodes()); });
}

/// Solves the private caches of what has changed. The last level sees what these do not keep.
void Model::solve_cores() {
  for (const Index physical : streams_.changed_cores()) {
    const std::vector<Index>& list = streams_.of_physical(physical);
    if (!list.empty()) caches().solve_core(physical);
    for (const Index i : list) streams_.mark_domain(streams_.domain_of(streams_[i]));
  }
}

void Model::solve_domains(bool passing_only, double ns_per_unit) {
  for (Index domain = 0; domain < map_.domains; ++domain) {
    if (!streams_.domain_changed(domain) || streams_.of_domain(domain).empty()) continue;
    if (passing_only && passing_per_ns_[domain] == 0.0) continue;
    caches().solve_domain(domain, ns_per_unit);
  }
}

double Model::active_cores() const {
  Index active = 0;
  // Of equal cores one alone has streams.
  for (Index core = 0; core < map_.cores(); ++core) active += demands_.share[core] > 0.0;
  return active;
}

void Model::refresh() {
  const bool saturated = load_.kind == Load::Kind::saturated;
  streams_.measure_reach(saturated);
  caches().mark_new_owners(streams_);
  solve_cores();
  for (Index domain = 0; domain < map_.domains; ++domain) {
    if (passing_per_ns_[domain] > 0.0) streams_.mark_domain(domain);
  }
  double ns_per_unit = 0.0;
  double x = 0.0;  // queries per ns
  for (int round = 0; round < (passing_ ? passing_rounds : 1); ++round) {
    solve_domains(round > 0, ns_per_unit);
    sum_demands();
    x = contention_.solve(demands_);
    ns_per_unit = (saturated ? active_cores() : 1.0) / x;
  }
  throughput_ = 1e3 * (load_.counts_mix ? mix_rate() : x);
}

/// Queries per ns of the workload's own mix. The workers of a queue serve together what is in it.
double Model::mix_rate() const {
  const std::vector<double>& rate = contention_.core_rate();
  double least = std::numeric_limits<double>::infinity();
  const auto take = [&](double served, double share) {
    if (share > 0.0) least = std::min(least, served / share);
  };
  if (schedule_.routing == Routing::core) {
    for (Index core = 0; core < map_.cores(); ++core) take(rate[core], demands_.share[core]);
    return least;
  }
  const bool by_node = schedule_.routing == Routing::node;
  for (Index node = 0; node < (by_node ? map_.nodes() : 1); ++node) {
    double served = 0.0, share = 0.0;
    for (Index core = 0; core < map_.cores(); ++core) {
      if (demands_.share[core] == 0.0 || (by_node && map_.node_of_core[core] != node)) continue;
      served += rate[core];
      share += demands_.share[core];
    }
    take(served, share);
  }
  return least;
}

}  // namespace pmoss::analytic
