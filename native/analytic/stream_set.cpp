#include "analytic/stream_set.hpp"

#include <algorithm>

namespace pmoss::analytic {

StreamSet::StreamSet(const CoreMap& map, const Instance& instance, double stay_share)
    : map_(map),
      instance_(instance),
      stay_share_(stay_share),
      of_physical_(map.physical_cores),
      of_domain_(map.domains),
      core_share_(map.cores(), 0.0),
      core_changed_(map.physical_cores, 0),
      domain_changed_(map.domains, 0),
      threads_(map.physical_cores, 0),
      node_workers_(map.nodes(), 0) {
  for (const Index core : map.workers) {
    ++threads_[map.physical_of_core[core]];
    ++node_workers_[map.node_of_core[core]];
  }
}

void StreamSet::clear() {
  streams_.clear();
  by_slice_ = false;
}

bool StreamSet::place(const Schedule& schedule) {
  const bool again = schedule.by_slice() && by_slice_;
  if (again) {
    for (Stream& stream : streams_) {
      stream.core = static_cast<Index>(schedule.core[stream.executing]);
      stream.node = static_cast<Index>(schedule.node[stream.touched]);
    }
  } else {
    make_streams(schedule);
  }
  by_slice_ = schedule.by_slice();
  for (auto& numbers : of_physical_) numbers.clear();
  for (auto& numbers : of_domain_) numbers.clear();
  for (Index i = 0; i < streams_.size(); ++i) {
    of_physical_[physical_of(streams_[i])].push_back(i);
    of_domain_[domain_of(streams_[i])].push_back(i);
  }
  for (Index physical = 0; physical < of_physical_.size(); ++physical) mark_core(physical);
  std::fill(domain_changed_.begin(), domain_changed_.end(), std::uint8_t{1});
  return !again;
}

/// Enters a stream into the lists of its physical core and its domain, or takes it out of them.
void StreamSet::list(Index number, bool enter) {
  const Stream& stream = streams_[number];
  const Index physical = physical_of(stream), domain = domain_of(stream);
  mark_core(physical);
  domain_changed_[domain] = 1;
  for (std::vector<Index>* numbers : {&of_physical_[physical], &of_domain_[domain]}) {
    const auto at = std::lower_bound(numbers->begin(), numbers->end(), number);
    if (enter) {
      numbers->insert(at, number);
    } else {
      numbers->erase(at);
    }
  }
}

void StreamSet::shift_stream(Index number, Index slice, Index core, Index node) {
  Stream& stream = streams_[number];
  list(number, false);
  if (stream.executing == slice) stream.core = core;
  if (stream.touched == slice) stream.node = node;
  list(number, true);
}

void StreamSet::forget_changes() {
  for (const Index physical : changed_cores_) core_changed_[physical] = 0;
  changed_cores_.clear();
  std::fill(domain_changed_.begin(), domain_changed_.end(), std::uint8_t{0});
}

void StreamSet::move(Index slice, Index core, Index node) {
  forget_changes();
  shift(slice, core, node);
}

void StreamSet::shift(Index slice, Index core, Index node) {
  for (const Index number : executing_[slice]) shift_stream(number, slice, core, node);
  for (const Index number : touching_[slice]) {
    if (streams_[number].executing != slice) shift_stream(number, slice, core, node);
  }
}

/// Fills in the share of a slice's lines that each node holds.
void StreamSet::fill_homes(const Schedule& schedule, Index slice,
                           std::vector<double>& parts) const {
  const Index nodes = map_.nodes();
  if (schedule.data == DataPlacement::interleaved) {
    parts.assign(nodes, 1.0 / static_cast<double>(nodes));
    return;
  }
  parts.assign(nodes, 0.0);
  const auto own = static_cast<Index>(schedule.node[slice]);
  if (schedule.data == DataPlacement::slice) {
    parts[own] = 1.0;
    return;
  }
  parts[0] = stay_share_;
  if (schedule.routing == Routing::node) {
    parts[own] += 1.0 - stay_share_;
  } else if (schedule.routing == Routing::core) {
    const auto core = static_cast<Index>(schedule.core[slice]);
    parts[map_.node_of_core[core]] += 1.0 - stay_share_;
  } else {
    for (const Index core : map_.workers) {
      parts[map_.node_of_core[core]] +=
          (1.0 - stay_share_) / static_cast<double>(map_.workers.size());
    }
  }
}

void StreamSet::find_leaders(const Schedule& schedule) {
  leaders_.clear();
  leader_.assign(map_.cores(), none);
  followers_.assign(map_.cores(), 0);
  if (schedule.routing == Routing::core) return;
  for (const Index core : map_.workers) {
    const auto twin = std::find_if(leaders_.begin(), leaders_.end(), [&](Index other) {
      return map_.node_of_core[other] == map_.node_of_core[core] &&
             map_.llc_of_core[other] == map_.llc_of_core[core] &&
             threads_[map_.physical_of_core[other]] == threads_[map_.physical_of_core[core]];
    });
    const Index leader = twin == leaders_.end() ? core : *twin;
    if (twin == leaders_.end()) leaders_.push_back(core);
    leader_[core] = leader;
    ++followers_[leader];
  }
}

void StreamSet::make_streams(const Schedule& schedule) {
  const Index n = instance_.slices();
  streams_.clear();
  at_home_.assign(n, 1.0);
  // Every instance begins here: lists keep their memory.
  for (auto* lists : {&touching_, &executing_}) {
    lists->resize(n);
    for (std::vector<Index>& numbers : *lists) numbers.clear();
  }
  elsewhere_.resize(n);
  for (std::vector<SharedTouches>& shared : elsewhere_) shared.clear();
  for (const SharedTouches& shared : instance_.profiles.shared) {
    at_home_[static_cast<Index>(shared.touched)] -= shared.share;
    elsewhere_[static_cast<Index>(shared.executing)].push_back(shared);
  }
  find_leaders(schedule);
  homes_.resize(n);
  for (Index slice = 0; slice < n; ++slice) fill_homes(schedule, slice, homes_[slice]);
  for (Index slice = 0; slice < n; ++slice) add_queries(schedule, slice);
  shares_lines_ = schedule.routing != Routing::core || !instance_.profiles.shared.empty();
  reach_.assign(streams_.size(), Reach{});
}

/// Adds the streams that the queries of one slice make.
void StreamSet::add_queries(const Schedule& schedule, Index slice) {
  const auto add = [&](Index core, int copies, int threads, double queries) {
    add_stream({slice, slice, core, copies, threads, 0, queries, at_home_[slice] * queries, 1.0});
    for (const SharedTouches& shared : elsewhere_[slice]) {
      add_stream({slice, static_cast<Index>(shared.touched), core, copies, threads, 0, queries,
                  shared.share * queries, 1.0});
    }
  };
  if (schedule.routing == Routing::core) {
    add(static_cast<Index>(schedule.core[slice]), 1, 1, 1.0);
    return;
  }
  for (const Index leader : leaders_) {
    const Index node = map_.node_of_core[leader];
    const bool by_node = schedule.routing == Routing::node;
    if (by_node && node != static_cast<Index>(schedule.node[slice])) continue;
    const int sharing = by_node ? node_workers_[node] : static_cast<int>(map_.workers.size());
    add(leader, followers_[leader], threads_[map_.physical_of_core[leader]], 1.0 / sharing);
  }
}

/// Adds a stream to each node that holds lines of the touched slice.
void StreamSet::add_stream(Stream stream) {
  for (stream.node = 0; stream.node < map_.nodes(); ++stream.node) {
    stream.part = homes_[stream.touched][stream.node];
    if (stream.part == 0.0) continue;
    const auto number = static_cast<Index>(streams_.size());
    executing_[stream.executing].push_back(number);
    touching_[stream.touched].push_back(number);
    streams_.push_back(stream);
  }
}

bool StreamSet::begins_query(Index i) const {
  return i == 0 || streams_[i - 1].executing != streams_[i].executing ||
         streams_[i - 1].core != streams_[i].core;
}

/// Sums up what share of the queries each changed core serves.
void StreamSet::share_cores() {
  for (const Index physical : changed_cores_) {
    for (const Index core : map_.cores_of_physical[physical]) core_share_[core] = 0.0;
    for (const Index number : of_physical_[physical]) {
      if (!begins_query(number)) continue;
      const Stream& stream = streams_[number];
      core_share_[stream.core] += stream.queries * instance_.profiles.share[stream.executing];
    }
  }
}

void StreamSet::set_reach(Index i, const Reach& reach) {
  if (reach == reach_[i]) return;
  reach_[i] = reach;
  mark_core(physical_of(streams_[i]));
  domain_changed_[domain_of(streams_[i])] = 1;
}

Reach StreamSet::reach_of(const Stream& stream, bool own_pace) const {
  const Index physical = physical_of(stream), domain = domain_of(stream);
  Reach reach{pace(stream, own_pace), 0.0, 0.0, 0.0};
  for (const Index other : touching_[stream.touched]) {
    const Stream& o = streams_[other];
    if (o.node != stream.node) continue;
    const double touches = o.share * pace(o, own_pace);
    reach.all += touches * o.copies;
    if (domain_of(o) == domain) reach.domain += touches * o.copies;
    if (physical_of(o) == physical) reach.own += touches * o.threads;
  }
  return reach;
}

// Rates are per query of the workload. Under saturation each core works at its own pace instead,
// and its slices share that core's queries.
void StreamSet::measure_reach(bool own_pace) {
  share_cores();
  if (shares_lines_) {
    for (const std::vector<Index>& numbers : touching_) {
      for (const Index number : numbers) set_reach(number, reach_of(streams_[number], own_pace));
    }
  } else {
    for (const Index physical : changed_cores_) {
      for (const Index i : of_physical_[physical]) {
        const double p = pace(streams_[i], own_pace);
        set_reach(i, {p, p, p, p});  // marks no other core
      }
    }
  }
  std::sort(changed_cores_.begin(), changed_cores_.end());
}

}  // namespace pmoss::analytic
