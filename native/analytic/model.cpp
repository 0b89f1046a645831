#include "analytic/model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "analytic/fast_exp.hpp"

namespace pmoss::analytic {
namespace {

constexpr double line_bytes = 64.0;
// Lines that pass through a cache without being used again take room by the time, and time is
// counted in queries: so often are the caches solved for the throughput that results.
constexpr int passing_rounds = 4;

[[noreturn]] void refuse(const std::string& text) { throw std::invalid_argument(text); }

Machine completed(Machine machine) {
  machine.complete();
  return machine;
}

void check_neighbours(const Neighbours& neighbours, const Machine& machine) {
  const auto check = [](const char* name, const std::vector<double>& values, int right,
                        double below) {
    if (values.empty()) return;
    if (values.size() != static_cast<std::size_t>(right)) {
      refuse("length of " + std::string(name) + " = " + std::to_string(values.size()) +
             ": must be " + std::to_string(right) + ", or 0 where there is none");
    }
    for (const double value : values) {
      if (value >= 0.0 && value < below) continue;
      refuse(std::string(name) + " = " + std::to_string(value) + ": must lie in [0, " +
             (std::isinf(below) ? "infinity" : std::to_string(below)) + ")");
    }
  };
  const double any = std::numeric_limits<double>::infinity();
  const int sockets = machine.sockets();
  check("busy_share", neighbours.busy_share, machine.cores(), 1.0);
  check("sibling_busy_share", neighbours.sibling_busy_share, machine.cores(),
        std::nextafter(1.0, 2.0));
  check("llc_lines_per_ns", neighbours.llc_lines_per_ns, machine.llc_domains(), any);
  check("dram_gb_per_s", neighbours.dram_gb_per_s, machine.nodes(), any);
  check("link_gb_per_s", neighbours.link_gb_per_s, sockets * sockets, any);
}

}  // namespace

Model::Model(Machine machine, Load load, ModelOptions options)
    : machine_(completed(std::move(machine))),
      load_((load.validate(), load)),
      options_(options),
      contention_(machine_, load_, options.dispatched) {
  const auto cores = static_cast<std::size_t>(machine_.cores());
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  const auto domains = static_cast<std::size_t>(machine_.llc_domains());
  for (std::size_t c = 0; c < cores; ++c) {
    for (std::size_t m = 0; m < nodes; ++m) {
      llc_of_.push_back(
          static_cast<std::size_t>(machine_.llc_of(static_cast<int>(c), static_cast<int>(m))));
    }
  }
  std::vector<int> numbers = machine_.physical_of_core;
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  for (const int number : machine_.physical_of_core) {
    physical_.push_back(static_cast<std::size_t>(
        std::lower_bound(numbers.begin(), numbers.end(), number) - numbers.begin()));
  }
  llc_sets_ = SetSpread::of(machine_.llc_ways);
  times_.resize(cores);
  search_start_.assign(numbers.size(), {});
  core_share_.assign(cores, 0.0);
  private_time_.assign(numbers.size(), 0.0);
  of_physical_.resize(numbers.size());
  core_changed_.assign(numbers.size(), 0);
  domain_time_.assign(domains, 0.0);
  of_domain_.resize(domains);
  domain_changed_.assign(domains, 0);
}

void Model::set_instance(SliceProfiles profiles, const Neighbours& neighbours) {
  check_neighbours(neighbours, machine_);
  profiles_ = std::move(profiles);
  contention_.set_neighbours(neighbours);
  passing_per_ns_ = neighbours.llc_lines_per_ns;
  passing_per_ns_.resize(domain_time_.size(), 0.0);
  passing_ = std::any_of(passing_per_ns_.begin(), passing_per_ns_.end(),
                         [](double lines) { return lines > 0.0; });
  const auto n = static_cast<std::size_t>(profiles_.slices);
  core_.assign(n, -1);
  node_.assign(n, -1);
  streams_.clear();
  by_slice_ = false;
  throughput_ = 0.0;
  row_.assign(1, 0);
  for (std::size_t slice = 0; slice < n; ++slice) {
    const std::size_t classes = profiles_.first_class[slice + 1] - profiles_.first_class[slice];
    row_.push_back(row_.back() + (classes + row_lanes - 1) / row_lanes * row_lanes);
  }
  for (auto* values : {&lines_, &rates_, &waits_, &touches_, &dependent_, &dirty_share_, &locks_}) {
    values->assign(row_.back(), 0.0);
  }
  for (std::size_t slice = 0; slice < n; ++slice) {
    std::size_t to = row_[slice];
    for (std::size_t k = profiles_.first_class[slice]; k < profiles_.first_class[slice + 1];
         ++k, ++to) {
      lines_[to] = profiles_.lines[k];
      rates_[to] = profiles_.line_rate[k];
      touches_[to] = profiles_.lines[k] * profiles_.line_rate[k];
      waits_[to] = profiles_.dependent[k] / machine_.mlp_dependent +
                   profiles_.streaming[k] / machine_.mlp_streaming;
      dependent_[to] = profiles_.dependent[k];
      dirty_share_[to] = profiles_.dirty_share[k];
      locks_[to] = profiles_.locks[k];
    }
  }
  if (profiles_.shared.empty()) {
    std::vector<double> waits(profiles_.classes());
    for (std::size_t k = 0; k < waits.size(); ++k) {
      waits[k] = profiles_.dependent[k] / machine_.mlp_dependent +
                 profiles_.streaming[k] / machine_.mlp_streaming;
    }
    tables_.build(profiles_, waits);
    std::fill(search_start_.begin(), search_start_.end(), std::array<double, 3>{});
  }
  std::size_t longest = 0;
  for (std::size_t slice = 0; slice < n; ++slice) {
    longest = std::max(longest, row_[slice + 1] - row_[slice]);
  }
  shared_past_l2_.assign(longest, 0.0);
  shared_past_llc_.assign(longest, 0.0);
  computation_ns_.resize(n);
  l2_ns_.resize(n);
  for (std::size_t s = 0; s < n; ++s) {
    l2_ns_[s] = profiles_.share[s] * machine_.l2_ns *
                (profiles_.dependent_touches[s] / machine_.mlp_dependent +
                 profiles_.streaming_touches[s] / machine_.mlp_streaming);
    computation_ns_[s] = profiles_.share[s] *
                         (profiles_.instructions[s] / machine_.instructions_per_cycle +
                          profiles_.branch_misses[s] * machine_.branch_miss_cycles +
                          machine_.query_overhead_cycles) /
                         machine_.clock_ghz;
  }
}

void Model::check_position(int slice, int core, int node) const {
  if (routing_ == Routing::core && (core < 0 || core >= machine_.cores() ||
                                    machine_.is_worker[static_cast<std::size_t>(core)] == 0)) {
    refuse("slice " + std::to_string(slice) + ": core " + std::to_string(core) +
           " is not a worker of this machine");
  }
  if (node < 0 || node >= machine_.nodes()) {
    refuse("slice " + std::to_string(slice) + ": node " + std::to_string(node) +
           " does not exist; nodes are 0 to " + std::to_string(machine_.nodes() - 1));
  }
  if (routing_ != Routing::node) return;
  for (std::size_t c = 0; c < machine_.node_of_core.size(); ++c) {
    if (machine_.node_of_core[c] == node && machine_.is_worker[c] != 0) return;
  }
  refuse("slice " + std::to_string(slice) + ": node " + std::to_string(node) +
         " has no worker to serve it");
}

double Model::place(const Placement& placement) {
  const auto n = static_cast<std::size_t>(profiles_.slices);
  if (n == 0) refuse("no workload instance: call set_instance() first");
  const std::size_t cores = placement.cores.size();
  require_modelled(placement.data);
  const bool by_core = placement.routing == Routing::core;
  if (placement.nodes.size() != n || (cores != n && (by_core || cores != 0))) {
    refuse("a schedule of " + std::to_string(cores) + " cores and " +
           std::to_string(placement.nodes.size()) + " nodes: must place exactly " +
           std::to_string(n) + " slices");
  }
  const Routing routing_before = routing_;
  routing_ = placement.routing;
  try {
    for (std::size_t s = 0; s < n; ++s) {
      check_position(static_cast<int>(s), cores == 0 ? -1 : placement.cores[s], placement.nodes[s]);
    }
  } catch (...) {
    routing_ = routing_before;
    throw;
  }
  data_ = placement.data;
  contention_.set_hint_faults(options_.numa_balancing && data_ == DataPlacement::loader);
  for (std::size_t s = 0; s < n; ++s) {
    core_[s] = cores == 0 ? -1 : placement.cores[s];
    node_[s] = placement.nodes[s];
  }
  start_over();
  return throughput_;
}

double Model::move(int slice, int core, int node) {
  if (slice < 0 || slice >= profiles_.slices) {
    refuse("slice " + std::to_string(slice) + ": must lie between 0 and " +
           std::to_string(profiles_.slices - 1));
  }
  const auto s = static_cast<std::size_t>(slice);
  if (streams_.empty()) refuse("no schedule to change: call place() first");
  check_position(slice, core, node);
  if (core_[s] == core && node_[s] == node) return throughput_;
  core_[s] = core;
  node_[s] = node;
  if (routing_ != Routing::core || data_ != DataPlacement::slice) {
    start_over();
    return throughput_;
  }
  std::fill(core_changed_.begin(), core_changed_.end(), std::uint8_t{0});
  std::fill(domain_changed_.begin(), domain_changed_.end(), std::uint8_t{0});
  const auto with_lists = [this](int number, bool there) {
    const Stream& stream = streams_[static_cast<std::size_t>(number)];
    const std::size_t physical = physical_[static_cast<std::size_t>(stream.core)];
    core_changed_[physical] = 1;
    domain_changed_[domain_of(stream)] = 1;
    for (std::vector<int>* list : {&of_physical_[physical], &of_domain_[domain_of(stream)]}) {
      const auto at = std::lower_bound(list->begin(), list->end(), number);
      if (there) {
        list->insert(at, number);
      } else {
        list->erase(at);
      }
    }
  };
  const auto shift = [&](int number) {
    Stream& stream = streams_[static_cast<std::size_t>(number)];
    with_lists(number, false);
    if (stream.executing == slice) stream.core = core;
    if (stream.touched == slice) stream.node = node;
    with_lists(number, true);
  };
  for (const int number : executing_[s]) shift(number);
  for (const int number : touching_[s]) {
    if (streams_[static_cast<std::size_t>(number)].executing != slice) shift(number);
  }
  refresh();
  return throughput_;
}

/// Everything anew.
void Model::start_over() {
  // Where every slice has its core and its node, the streams of before only go elsewhere.
  const bool by_slice = routing_ == Routing::core && data_ == DataPlacement::slice;
  if (by_slice && by_slice_) {
    for (Stream& stream : streams_) {
      stream.core = core_[static_cast<std::size_t>(stream.executing)];
      stream.node = node_[static_cast<std::size_t>(stream.touched)];
    }
  } else {
    make_streams();
  }
  by_slice_ = by_slice;
  for (auto& list : of_physical_) list.clear();
  for (auto& list : of_domain_) list.clear();
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    of_physical_[physical_[static_cast<std::size_t>(streams_[i].core)]].push_back(
        static_cast<int>(i));
    of_domain_[domain_of(streams_[i])].push_back(static_cast<int>(i));
  }
  std::fill(core_changed_.begin(), core_changed_.end(), std::uint8_t{1});
  std::fill(domain_changed_.begin(), domain_changed_.end(), std::uint8_t{1});
  demands_.clear(core_share_.size(), machine_.socket_of_node.size());
  refresh();
}

std::vector<double> Model::marginal(int slice) {
  if (slice < 0 || slice >= profiles_.slices) {
    refuse("slice " + std::to_string(slice) + ": must lie between 0 and " +
           std::to_string(profiles_.slices - 1));
  }
  const int core = core_of(slice);
  const int node = node_of(slice);
  std::vector<double> result(static_cast<std::size_t>(machine_.cores()),
                             std::numeric_limits<double>::quiet_NaN());
  for (int c = 0; c < machine_.cores(); ++c) {
    const auto i = static_cast<std::size_t>(c);
    if (machine_.is_worker[i] != 0) result[i] = move(slice, c, machine_.node_of_core[i]);
  }
  move(slice, core, node);
  return result;
}

std::size_t Model::domain_of(const Stream& stream) const {
  return llc_of_[static_cast<std::size_t>(stream.core) * machine_.socket_of_node.size() +
                 static_cast<std::size_t>(stream.node)];
}

/// The share of a slice's lines that each node holds.
std::vector<double> Model::homes_of(std::size_t slice) const {
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  if (data_ == DataPlacement::interleaved) {
    return std::vector<double>(nodes, 1.0 / static_cast<double>(nodes));
  }
  std::vector<double> parts(nodes, 0.0);
  const auto own = static_cast<std::size_t>(node_[slice]);
  if (data_ == DataPlacement::slice) {
    parts[own] = 1.0;
    return parts;
  }
  const double stays = options_.numa_balancing ? NumaBalancing{}.stay_share : 1.0;
  parts[0] = stays;
  if (routing_ == Routing::node) {
    parts[own] += 1.0 - stays;
  } else if (routing_ == Routing::core) {
    parts[static_cast<std::size_t>(
        machine_.node_of_core[static_cast<std::size_t>(core_[slice])])] += 1.0 - stays;
  } else {
    for (std::size_t c = 0; c < machine_.node_of_core.size(); ++c) {
      if (machine_.is_worker[c] == 0) continue;
      parts[static_cast<std::size_t>(machine_.node_of_core[c])] +=
          (1.0 - stays) / machine_.workers();
    }
  }
  return parts;
}

/// Who touches what from where. Cores that serve the same queries in the same surroundings are one.
void Model::make_streams() {
  const auto n = static_cast<std::size_t>(profiles_.slices);
  const int nodes = machine_.nodes();
  streams_.clear();
  touching_.assign(n, {});
  executing_.assign(n, {});
  first_state_.clear();
  alike_.assign(static_cast<std::size_t>(machine_.cores()), -1);

  std::vector<double> at_home(n, 1.0);
  std::vector<std::vector<SharedTouches>> elsewhere(n);
  for (const SharedTouches& shared : profiles_.shared) {
    at_home[static_cast<std::size_t>(shared.touched)] -= shared.share;
    elsewhere[static_cast<std::size_t>(shared.executing)].push_back(shared);
  }
  std::vector<int> physical_threads(private_time_.size(), 0);
  std::vector<int> node_workers(static_cast<std::size_t>(nodes), 0);
  for (std::size_t c = 0; c < physical_.size(); ++c) {
    if (machine_.is_worker[c] == 0) continue;
    ++physical_threads[physical_[c]];
    ++node_workers[static_cast<std::size_t>(machine_.node_of_core[c])];
  }
  std::vector<int> leaders;
  std::vector<int> followers(alike_.size(), 0);
  if (routing_ != Routing::core) {
    for (std::size_t c = 0; c < physical_.size(); ++c) {
      if (machine_.is_worker[c] == 0) continue;
      const auto leader = std::find_if(leaders.begin(), leaders.end(), [&](int other) {
        const auto o = static_cast<std::size_t>(other);
        return machine_.node_of_core[o] == machine_.node_of_core[c] &&
               machine_.llc_of_core[o] == machine_.llc_of_core[c] &&
               physical_threads[physical_[o]] == physical_threads[physical_[c]];
      });
      const int found = leader == leaders.end() ? static_cast<int>(c) : *leader;
      if (leader == leaders.end()) leaders.push_back(found);
      alike_[c] = found;
      ++followers[static_cast<std::size_t>(found)];
    }
  }

  std::vector<std::vector<double>> homes;
  for (std::size_t s = 0; s < n; ++s) homes.push_back(homes_of(s));
  const auto add = [&](Stream stream) {
    for (stream.node = 0; stream.node < nodes; ++stream.node) {
      stream.part =
          homes[static_cast<std::size_t>(stream.touched)][static_cast<std::size_t>(stream.node)];
      if (stream.part == 0.0) continue;
      const auto number = static_cast<int>(streams_.size());
      executing_[static_cast<std::size_t>(stream.executing)].push_back(number);
      touching_[static_cast<std::size_t>(stream.touched)].push_back(number);
      streams_.push_back(stream);
    }
  };
  const auto add_all = [&](std::size_t s, int core, int copies, int threads, double queries) {
    const auto slice = static_cast<int>(s);
    add({slice, slice, core, copies, threads, 0, queries, at_home[s] * queries, 1.0});
    for (const SharedTouches& shared : elsewhere[s]) {
      add({slice, shared.touched, core, copies, threads, 0, queries, shared.share * queries, 1.0});
    }
  };
  for (std::size_t s = 0; s < n; ++s) {
    if (routing_ == Routing::core) {
      add_all(s, core_[s], 1, 1, 1.0);
      continue;
    }
    for (const int leader : leaders) {
      const auto c = static_cast<std::size_t>(leader);
      const int node = machine_.node_of_core[c];
      if (routing_ == Routing::node && node != node_[s]) continue;
      const int sharing = routing_ == Routing::node ? node_workers[static_cast<std::size_t>(node)]
                                                    : machine_.workers();
      add_all(s, leader, followers[c], physical_threads[physical_[c]], 1.0 / sharing);
    }
  }
  std::size_t states = 0;
  for (const Stream& stream : streams_) {
    const auto t = static_cast<std::size_t>(stream.touched);
    first_state_.push_back(states);
    states += row_[t + 1] - row_[t];
  }
  first_state_.push_back(states);
  shared_lines_ = routing_ != Routing::core || !profiles_.shared.empty();
  past_l2_.assign(shared_lines_ ? states : 0, 0.0);
  past_llc_.assign(shared_lines_ ? states : 0, 0.0);
  reach_.assign(streams_.size(), Reach{});
  demand_.assign(streams_.size(), Demand{});
  left_llc_point_.assign(streams_.size(), {});
}

/// Whether a stream is the first that its executing slice has on its core.
bool Model::begins_query(std::size_t i) const {
  return i == 0 || streams_[i - 1].executing != streams_[i].executing ||
         streams_[i - 1].core != streams_[i].core;
}

/// Rates are per query of the workload. Under saturation each core works at its own pace instead,
/// and its slices share that core's queries.
void Model::measure_reach() {
  const bool own_pace = load_.kind == Load::Kind::saturated;
  for (std::size_t c = 0; c < core_share_.size(); ++c) {
    if (core_changed_[physical_[c]] != 0) core_share_[c] = 0.0;
  }
  for (std::size_t p = 0; p < of_physical_.size(); ++p) {
    if (core_changed_[p] == 0) continue;
    for (const int number : of_physical_[p]) {
      if (!begins_query(static_cast<std::size_t>(number))) continue;
      const Stream& stream = streams_[static_cast<std::size_t>(number)];
      core_share_[static_cast<std::size_t>(stream.core)] +=
          stream.queries * profiles_.share[static_cast<std::size_t>(stream.executing)];
    }
  }
  const auto change = [this](std::size_t i, const Reach& reach) {
    if (reach == reach_[i]) return;
    reach_[i] = reach;
    core_changed_[physical_[static_cast<std::size_t>(streams_[i].core)]] = 1;
    domain_changed_[domain_of(streams_[i])] = 1;
  };
  const auto pace = [&](const Stream& stream) {
    const double share = core_share_[static_cast<std::size_t>(stream.core)];
    return own_pace && share > 0.0 ? 1.0 / share : 1.0;
  };
  if (!shared_lines_) {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (core_changed_[physical_[static_cast<std::size_t>(streams_[i].core)]] == 0) continue;
      const double p = pace(streams_[i]);
      change(i, {p, p, p, p});
    }
    return;
  }
  for (const std::vector<int>& list : touching_) {
    for (const int number : list) {
      const auto i = static_cast<std::size_t>(number);
      const Stream& stream = streams_[i];
      const std::size_t physical = physical_[static_cast<std::size_t>(stream.core)];
      const std::size_t domain = domain_of(stream);
      Reach reach{pace(stream), 0.0, 0.0, 0.0};
      for (const int other : list) {
        const Stream& o = streams_[static_cast<std::size_t>(other)];
        if (o.node != stream.node) continue;
        const double touches = o.share * pace(o);
        reach.all += touches * o.copies;
        if (domain_of(o) == domain) reach.domain += touches * o.copies;
        if (physical_[static_cast<std::size_t>(o.core)] == physical) {
          reach.own += touches * o.threads;
        }
      }
      change(i, reach);
    }
  }
}

/// What the streams of a list hold together: padded classes, side by side.
std::size_t Model::classes_of(const std::vector<int>& list) const {
  std::size_t classes = 0;
  for (const int number : list) {
    const auto i = static_cast<std::size_t>(number);
    classes += first_state_[i + 1] - first_state_[i];
  }
  return classes;
}

void Model::solve_private(std::size_t physical) {
  const std::vector<int>& list = of_physical_[physical];
  residents_.start(classes_of(list));
  double* lines = residents_.lines();
  double* rates = residents_.rates();
  for (const int number : list) {
    const auto i = static_cast<std::size_t>(number);
    const Stream& stream = streams_[i];
    const Reach& reach = reach_[i];
    const auto t = static_cast<std::size_t>(stream.touched);
    const std::size_t first = row_[t];
    const std::size_t n = row_[t + 1] - first;
    // A line that several streams touch through this cache is there once.
    const double mine = reach.own > 0.0
                            ? stream.part * stream.share * reach.pace * stream.threads / reach.own
                            : 0.0;
    const double others = reach.all - reach.own;
    for (std::size_t k = 0; k < n; ++k) {
      lines[k] = lines_[first + k] * mine;
      rates[k] = rates_[first + k] * reach.own;
    }
    if (others > 0.0) {
      for (std::size_t k = 0; k < n; ++k) {
        const double lost = others * dirty_share_[first + k];
        if (lost == 0.0) continue;
        lines[k] *= reach.own / (reach.own + lost);
        rates[k] = rates_[first + k] * (reach.own + lost);
      }
    }
    lines += n;
    rates += n;
  }
  private_time_[physical] = residents_.solve(machine_.l2_lines, 0.0);
  const double* left = residents_.decay();
  for (const int number : list) {
    const auto i = static_cast<std::size_t>(number);
    const std::size_t n = first_state_[i + 1] - first_state_[i];
    std::copy_n(left, n, &past_l2_[first_state_[i]]);
    left += n;
  }
}

/// The address translation of one physical core: pages compete for the two levels as lines do.
void Model::solve_pages(std::size_t physical) {
  const std::vector<int>& list = of_physical_[physical];
  std::size_t classes = 0;
  for (const int number : list) {
    const auto t = static_cast<std::size_t>(streams_[static_cast<std::size_t>(number)].touched);
    classes += profiles_.first_page_class[t + 1] - profiles_.first_page_class[t];
  }
  residents_.start(classes);
  double* pages = residents_.lines();
  double* rates = residents_.rates();
  for (const int number : list) {
    const auto i = static_cast<std::size_t>(number);
    const Stream& stream = streams_[i];
    const Reach& reach = reach_[i];
    const auto t = static_cast<std::size_t>(stream.touched);
    const double mine = reach.own > 0.0
                            ? stream.part * stream.share * reach.pace * stream.threads / reach.own
                            : 0.0;
    for (std::size_t k = profiles_.first_page_class[t]; k < profiles_.first_page_class[t + 1];
         ++k) {
      *pages++ = profiles_.pages[k] * mine;
      *rates++ = profiles_.page_rate[k] * reach.own;
    }
    demand_[i].walk_ns = 0.0;
    demand_[i].dtlb_misses = 0.0;
  }
  const auto add_misses = [&](double counted, double ns) {
    const double* left = residents_.decay();
    for (const int number : list) {
      const auto i = static_cast<std::size_t>(number);
      const auto t = static_cast<std::size_t>(streams_[i].touched);
      double misses = 0.0;
      for (std::size_t k = profiles_.first_page_class[t]; k < profiles_.first_page_class[t + 1];
           ++k) {
        misses += profiles_.pages[k] * profiles_.page_rate[k] * *left++;
      }
      misses *= streams_[i].share * streams_[i].part;
      demand_[i].walk_ns += misses * ns;
      demand_[i].dtlb_misses += misses * counted;
    }
  };
  // What the first level lacks the second one serves, unless it lacks it, too.
  const double second_ns = machine_.dtlb_pages > 0.0 ? machine_.tlb_ns : 0.0;
  if (second_ns > 0.0) {
    residents_.solve(machine_.dtlb_pages, 0.0);
    add_misses(0.0, second_ns);
  }
  residents_.solve(machine_.tlb_pages, 0.0);
  add_misses(1.0, machine_.page_walk_ns - second_ns);
}

/// The probability that a line of one class was not touched in the domain for as long as it stays
/// in the private caches.
double Model::past_private(std::size_t i, std::size_t k) const {
  const Stream& stream = streams_[i];
  const Reach& reach = reach_[i];
  if (reach.domain == reach.own) return past_l2_[first_state_[i] + k];
  const double time = private_time_[physical_[static_cast<std::size_t>(stream.core)]];
  if (std::isinf(time)) return 0.0;
  const std::size_t at = row_[static_cast<std::size_t>(stream.touched)] + k;
  const double touches = reach.domain + (reach.all - reach.domain) * dirty_share_[at];
  return exp_of_negative(-rates_[at] * touches * time);
}

/// A victim cache holds what the private caches gave up, for a time of its own after theirs. An
/// inclusive one holds what was touched within its time, in a private cache or not.
void Model::solve_domain(std::size_t domain) {
  const bool inclusive = machine_.llc_inclusive;
  const std::vector<int>& list = of_domain_[domain];
  residents_.start(classes_of(list));
  double* lines = residents_.lines();
  double* rates = residents_.rates();
  for (const int number : list) {
    const auto i = static_cast<std::size_t>(number);
    const Stream& stream = streams_[i];
    const Reach& reach = reach_[i];
    const auto t = static_cast<std::size_t>(stream.touched);
    const std::size_t first = row_[t];
    const std::size_t n = row_[t + 1] - first;
    const double mine = reach.domain > 0.0
                            ? stream.part * stream.share * reach.pace * stream.copies / reach.domain
                            : 0.0;
    const double others = reach.all - reach.domain;
    for (std::size_t k = 0; k < n; ++k) {
      lines[k] = lines_[first + k] * mine;
      rates[k] = rates_[first + k] * reach.domain;
    }
    if (others > 0.0) {
      for (std::size_t k = 0; k < n; ++k) {
        const double lost = others * dirty_share_[first + k];
        if (lost == 0.0) continue;
        lines[k] *= reach.domain / (reach.domain + lost);
        rates[k] = rates_[first + k] * (reach.domain + lost);
      }
    }
    if (!inclusive) {
      if (reach.domain == reach.own) {
        const double* const past = &past_l2_[first_state_[i]];
        for (std::size_t k = 0; k < n; ++k) lines[k] *= past[k];
      } else {
        for (std::size_t k = 0; k < n; ++k) lines[k] *= past_private(i, k);
      }
    }
    lines += n;
    rates += n;
  }
  domain_time_[domain] =
      residents_.solve_sets(machine_.llc_lines, llc_sets_, passing_per_ns_[domain] * ns_per_unit_);
  const double* left = residents_.decay();
  for (const int number : list) {
    const auto i = static_cast<std::size_t>(number);
    const std::size_t n = first_state_[i + 1] - first_state_[i];
    double* const past = &past_llc_[first_state_[i]];
    if (inclusive) {
      for (std::size_t k = 0; k < n; ++k) past[k] = std::min(past_private(i, k), left[k]);
    } else if (reach_[i].domain == reach_[i].own) {
      const double* const past_l2 = &past_l2_[first_state_[i]];
      for (std::size_t k = 0; k < n; ++k) past[k] = past_l2[k] * left[k];
    } else {
      for (std::size_t k = 0; k < n; ++k) past[k] = past_private(i, k) * left[k];
    }
    left += n;
  }
}

/// What a touch waits for a line that was modified in another domain, on average over its owners
/// and beyond what it has waited for the private cache.
double Model::modified_ns(const Stream& stream) const {
  const auto domains = domain_time_.size();
  const std::size_t here = domain_of(stream);
  const auto own =
      static_cast<std::size_t>(machine_.llc_of_core[static_cast<std::size_t>(stream.core)]);
  const auto socket_of_core = [this](int core) {
    return machine_.socket_of_node[static_cast<std::size_t>(
        machine_.node_of_core[static_cast<std::size_t>(core)])];
  };
  const int home = machine_.socket_of_node[static_cast<std::size_t>(stream.node)];
  double weights = 0.0;
  double sum = 0.0;
  for (const int other : touching_[static_cast<std::size_t>(stream.touched)]) {
    const Stream& o = streams_[static_cast<std::size_t>(other)];
    const std::size_t there = domain_of(o);
    if (o.node != stream.node || there == here) continue;
    const double weight = o.share * o.copies * reach_[static_cast<std::size_t>(other)].pace;
    double ns = machine_.modified_ns[own * domains + there];
    if (home == socket_of_core(stream.core) && home != socket_of_core(o.core)) {
      ns += machine_.modified_home_reader_ns;
    }
    weights += weight;
    sum += weight * std::max(0.0, ns - machine_.l2_ns);
  }
  return weights > 0.0 ? sum / weights : 0.0;
}

/// With writers on other cores, what has left a cache was there too long or was invalidated; what
/// another domain wrote last is fetched from there. Writers wait until other copies are gone.
void Model::share_lines(std::size_t i) {
  const Stream& stream = streams_[i];
  const Reach& reach = reach_[i];
  const std::size_t first = row_[static_cast<std::size_t>(stream.touched)];
  const std::size_t n = first_state_[i + 1] - first_state_[i];
  const double others = reach.all - reach.domain;
  const double beside = reach.domain - reach.own;
  const std::size_t domain = domain_of(stream);
  const double private_time = private_time_[physical_[static_cast<std::size_t>(stream.core)]];
  const double time = private_time + domain_time_[domain];
  const double llc_ns = std::max(0.0, machine_.llc_ns - machine_.l2_ns);
  const double memory_ns =
      machine_.dram_latency(machine_.node_of_core[static_cast<std::size_t>(stream.core)],
                            stream.node) -
      machine_.l2_ns;
  const double other_ns = others > 0.0 ? modified_ns(stream) : 0.0;
  const double handed_over_ns = std::max(
      0.0, machine_.modified_ns[domain * domain_time_.size() + domain] - machine_.l2_ns - llc_ns);
  // The probability that a line which `mine` write was touched by `theirs` since, within a time.
  const auto held = [](double theirs, double mine, double rate, double within) {
    if (theirs <= 0.0) return 0.0;
    const double gone =
        std::isinf(within) ? 0.0 : exp_of_negative(-(theirs + mine) * rate * within);
    return theirs / (theirs + mine) * (1.0 - gone);
  };
  double waited_ns = 0.0;
  for (std::size_t k = 0; k < n; ++k) {
    double& past_l2 = shared_past_l2_[k];
    double& past_llc = shared_past_llc_[k];
    past_l2 = past_l2_[first_state_[i] + k];
    past_llc = past_llc_[first_state_[i] + k];
    const double dirty = dirty_share_[first + k];
    if (dirty == 0.0) {
      past_l2 = std::max(past_l2, past_llc);
      continue;
    }
    const double rate = rates_[first + k];
    // Of the copies that come to the private cache, the part that leaves it by age.
    const double lost = (reach.all - reach.own) * dirty;
    const double aged = reach.own * past_l2;
    past_l2 = (aged + lost) / (reach.own + lost);
    double modified = 0.0;  // elsewhere
    if (others > 0.0) {
      const double writes = others * dirty;
      past_llc = (reach.domain * past_llc + writes) / (reach.domain + writes);
      // The latest of all touches was one of those that wrote, and the line is still there.
      const double there = std::isinf(time) ? 1.0 : 1.0 - exp_of_negative(-reach.all * rate * time);
      modified = std::min(past_llc, writes / reach.all * there);
    }
    past_l2 = std::max(past_l2, past_llc);
    if (beside > 0.0) {
      // Another private cache of the domain holds it, modified, and the last level does not.
      const double absent =
          (reach.domain * past_private(i, k) + others * dirty) / (reach.domain + others * dirty);
      const double in_l2 = std::max(0.0, past_l2 - std::max(absent, past_llc));
      // The last level holds it as well where a copy of yet another cache left that by age since.
      const double met = exp_of_negative(-reach.domain * rate * std::min(private_time, 1e300));
      const double in_llc = 0.5 * (1.0 - met) * aged / (aged + lost + 1e-300);
      const double written = dirty / (dirty + (1.0 - dirty) * past_llc + others / reach.domain);
      waited_ns += waits_[first + k] * in_l2 * (1.0 - in_llc) * written * handed_over_ns;
    }
    const double held_beside = held(beside, (reach.own + others) * dirty, rate, private_time);
    const double held_elsewhere = held(others, reach.domain * dirty, rate, time);
    // What is locked has just been read. Of the other writes, those whose line the private cache
    // lacks wait for it in any case.
    const double locks = locks_[first + k];
    waited_ns +=
        locks * (held_elsewhere * other_ns + (1.0 - held_elsewhere) * held_beside * llc_ns);
    const double writes = std::max(0.0, touches_[first + k] * dirty - locks);
    const double in_own = 1.0 - past_l2;
    const double in_domain = past_l2 - past_llc;
    const double from_memory = past_llc - modified;
    waited_ns +=
        writes / machine_.mlp_streaming *
        (held_elsewhere * (in_own * other_ns + in_domain * std::max(0.0, other_ns - llc_ns) +
                           from_memory * std::max(0.0, other_ns - memory_ns)) +
         (1.0 - held_elsewhere) * held_beside * in_own * llc_ns);
    waited_ns += waits_[first + k] * modified * other_ns;
    // Neither the last level nor memory serves what is modified elsewhere.
    past_l2 -= modified;
    past_llc -= modified;
  }
  demand_[i].other_ns = stream.share * stream.part * waited_ns;
}

void Model::wait_for(std::size_t i, const RowSums& sums) {
  const Stream& stream = streams_[i];
  const double mine = stream.share * stream.part;
  Demand& demand = demand_[i];
  // Between the points of a table a sum near 0 may come out below it.
  const double near = std::max(0.0, sums.near), far = std::max(0.0, sums.far);
  // Every touch has waited for the private cache already.
  demand.llc_ns =
      mine * (near * std::max(0.0, machine_.llc_ns - machine_.l2_ns) - far * machine_.l2_ns);
  demand.dram_ns = mine * far *
                   machine_.dram_latency(
                       machine_.node_of_core[static_cast<std::size_t>(stream.core)], stream.node);
  demand.read_bytes = mine * line_bytes * std::max(0.0, sums.fetched);
  demand.written_bytes = mine * line_bytes * std::max(0.0, sums.dirtied);
}

void Model::refresh_stream(std::size_t i) {
  const Stream& stream = streams_[i];
  const Reach& reach = reach_[i];
  const std::size_t first = row_[static_cast<std::size_t>(stream.touched)];
  const std::size_t n = first_state_[i + 1] - first_state_[i];
  Row row{&waits_[first],
          &touches_[first],
          &dirty_share_[first],
          &past_l2_[first_state_[i]],
          &past_llc_[first_state_[i]],
          n};
  if (reach.all > reach.own) {
    share_lines(i);
    row.past_l2 = shared_past_l2_.data();
    row.past_llc = shared_past_llc_.data();
  }
  wait_for(i, decay_kernels().sum_row(row));
}

/// How long lines and pages stay in the private caches of a core where nobody else touches them.
/// Times are in units of the first stream's pace.
void Model::look_up_core(std::size_t physical) {
  const std::vector<int>& list = of_physical_[physical];
  const double pace = reach_[static_cast<std::size_t>(list.front())].pace;
  bool one_pace = true;
  double lines = 0.0, line_touches = 0.0, pages = 0.0, page_touches = 0.0;
  for (const int number : list) {
    const auto i = static_cast<std::size_t>(number);
    const Stream& stream = streams_[i];
    const auto t = static_cast<std::size_t>(stream.touched);
    CoreTimes& times = times_[static_cast<std::size_t>(stream.core)];
    times.pace = reach_[i].pace;
    one_pace = one_pace && times.pace == pace;
    times.offset =
        times.pace == pace ? 0.0 : SliceTables::point_of(times.pace) - SliceTables::point_of(pace);
    const double relative = stream.part * times.pace / pace;
    lines += stream.part * tables_.all_lines(t);
    pages += stream.part * tables_.all_pages(t);
    line_touches += relative * tables_.line_touches(t);
    page_touches += relative * tables_.page_touches(t);
  }
  // Where as many are present as there is room; sum_at(slice, place) is of one slice. At the points
  // of the tables their sums never fall, so that the result does not depend on where the search
  // starts: it is where the last one ended, unless siblings of different pace look between points.
  const auto leave = [&](double room, double all, double touches, double& start, auto sum_at) {
    if (all <= room) return SliceTables::never;
    const auto present = [&](double at) {
      TableSum sum;
      const auto point = static_cast<std::size_t>(at);
      for (const int number : list) {
        const Stream& stream = streams_[static_cast<std::size_t>(number)];
        const auto t = static_cast<std::size_t>(stream.touched);
        const double offset = times_[static_cast<std::size_t>(stream.core)].offset;
        const TableSum one =
            offset == 0.0 ? sum_at(t, point) : sum_at(t, SliceTables::position(at + offset));
        sum.value += stream.part * one.value;
        sum.slope += stream.part * one.slope;
      }
      return sum;
    };
    if (!one_pace || start == 0.0) start = SliceTables::point_of(room / touches);
    return start = point_where(present, room, start);
  };

  std::array<double, 3>& starts = search_start_[physical];
  const auto lines_at = [&](std::size_t slice, auto at) { return tables_.lines(slice, at); };
  const auto pages_at = [&](std::size_t slice, auto at) { return tables_.pages(slice, at); };
  const double point = leave(machine_.l2_lines, lines, line_touches, starts[0], lines_at);
  private_time_[physical] = point == SliceTables::never ? std::numeric_limits<double>::infinity()
                                                        : SliceTables::time_of(point) / pace;
  // What the first level lacks the second one serves, unless it lacks it, too.
  const double second_ns = machine_.dtlb_pages > 0.0 ? machine_.tlb_ns : 0.0;
  const double left_first =
      second_ns > 0.0 ? leave(machine_.dtlb_pages, pages, page_touches, starts[1], pages_at) : 0.0;
  const double left_second = leave(machine_.tlb_pages, pages, page_touches, starts[2], pages_at);
  const TablePosition l2 = SliceTables::position(point);
  const TablePosition first = SliceTables::position(left_first);
  const TablePosition second = SliceTables::position(left_second);
  for (const int number : list) {
    const auto i = static_cast<std::size_t>(number);
    const Stream& stream = streams_[i];
    const auto t = static_cast<std::size_t>(stream.touched);
    CoreTimes& times = times_[static_cast<std::size_t>(stream.core)];
    times.left_l2 = times.offset == 0.0 ? l2 : SliceTables::position(point + times.offset);
    const auto misses = [&](double left, const TablePosition& same) {
      const TablePosition at =
          times.offset == 0.0 ? same : SliceTables::position(left + times.offset);
      return stream.part * std::max(0.0, tables_.page_misses(t, at));
    };
    const double walks = misses(left_second, second);
    demand_[i].dtlb_misses = walks;
    demand_[i].walk_ns = walks * (machine_.page_walk_ns - second_ns) +
                         (second_ns > 0.0 ? misses(left_first, first) * second_ns : 0.0);
  }
}

/// The same for a last-level domain, and what its streams then wait for.
void Model::look_up_domain(std::size_t domain) {
  const bool inclusive = machine_.llc_inclusive;
  const std::vector<int>& list = of_domain_[domain];
  const double passing = passing_per_ns_[domain] * ns_per_unit_;
  domain_cores_.clear();
  double all = 0.0, beside = 0.0, inserted = 0.0;
  for (const int number : list) {
    const Stream& stream = streams_[static_cast<std::size_t>(number)];
    const auto t = static_cast<std::size_t>(stream.touched);
    const auto c = static_cast<std::size_t>(stream.core);
    if (std::find(domain_cores_.begin(), domain_cores_.end(), c) == domain_cores_.end()) {
      domain_cores_.push_back(c);
    }
    const CoreTimes& times = times_[c];
    all += stream.part * tables_.all_lines(t);
    if (inclusive) {
      inserted += stream.part * tables_.line_touches(t) * times.pace;
    } else {
      beside += stream.part * tables_.lines(t, times.left_l2).value;
      inserted += stream.part * tables_.left(t, times.left_l2).fetched * times.pace;
    }
  }
  // When lines leave the domain that stay there for `time`.
  const auto left_at = [&](std::size_t c, double time) {
    const double before = private_time_[physical_[c]];
    if (std::isinf(before) || std::isinf(time)) return SliceTables::never;
    const double stay = inclusive ? std::max(before, time) : before + time;
    return SliceTables::point_of(stay * times_[c].pace);
  };
  domain_sum_known_.fill(0);  // crowded and sparse sets look at the same points
  const auto present = [&](double at) {
    const auto point = static_cast<std::size_t>(at);
    TableSum& sum = domain_sum_[point];
    if (domain_sum_known_[point] != 0) return sum;
    domain_sum_known_[point] = 1;
    const double time = SliceTables::time_of(at);
    for (const std::size_t c : domain_cores_) {
      CoreTimes& times = times_[c];
      const double before = inclusive ? 0.0 : private_time_[physical_[c]];
      const double stay = before + time;
      times.now = SliceTables::position(
          std::isinf(before) ? SliceTables::never : SliceTables::point_of(stay * times.pace));
      times.now_slope = time / stay;
    }
    sum = {passing * time - beside, passing * time * SliceTables::per_point};
    for (const int number : list) {
      const Stream& stream = streams_[static_cast<std::size_t>(number)];
      const CoreTimes& times = times_[static_cast<std::size_t>(stream.core)];
      const TableSum one = tables_.lines(static_cast<std::size_t>(stream.touched), times.now);
      sum.value += stream.part * one.value;
      sum.slope += stream.part * times.now_slope * one.slope;
    }
    return sum;
  };
  const double rooms[2] = {machine_.llc_lines * llc_sets_.crowded,
                           machine_.llc_lines * llc_sets_.sparse};
  double point = SliceTables::point_of(rooms[0] / (inserted + passing));
  for (std::size_t kind = 0; kind < 2; ++kind) {
    double time = std::numeric_limits<double>::infinity();
    if (all - beside > rooms[kind] || passing > 0.0) {
      point = point_where(present, rooms[kind], point);
      time = SliceTables::time_of(point);
    }
    for (const std::size_t c : domain_cores_) {
      times_[c].left_llc_point[kind] = left_at(c, time);
      times_[c].left_llc[kind] = SliceTables::position(times_[c].left_llc_point[kind]);
    }
  }
  const double crowded = llc_sets_.crowded_share, sparse = 1.0 - crowded;
  for (const int number : list) {
    const auto i = static_cast<std::size_t>(number);
    const auto t = static_cast<std::size_t>(streams_[i].touched);
    const CoreTimes& times = times_[static_cast<std::size_t>(streams_[i].core)];
    left_llc_point_[i] = times.left_llc_point;
    const LeftSums a = tables_.left(t, times.left_llc[0]);
    const LeftSums b = tables_.left(t, times.left_llc[1]);
    const double far = crowded * a.waits + sparse * b.waits;
    wait_for(i,
             {std::max(0.0, tables_.left(t, times.left_l2).waits - far), far,
              crowded * a.fetched + sparse * b.fetched, crowded * a.dirtied + sparse * b.dirtied});
  }
}

/// The probability that a line of one class has left the last level.
double Model::past_llc(std::size_t i, std::size_t k) const {
  if (shared_lines_) return past_llc_[first_state_[i] + k];
  const double rate = rates_[row_[static_cast<std::size_t>(streams_[i].touched)] + k];
  const auto past = [&](double point) {
    return point == SliceTables::never ? 0.0 : exp_of_negative(-rate * SliceTables::time_of(point));
  };
  const double sparse = past(left_llc_point_[i][1]);
  return sparse + llc_sets_.crowded_share * (past(left_llc_point_[i][0]) - sparse);
}

/// The demands of the cores that changed: of those whose streams did.
void Model::sum_demands() {
  const std::size_t nodes = machine_.socket_of_node.size();
  for (std::size_t d = 0; d < of_domain_.size(); ++d) {
    if (domain_changed_[d] == 0) continue;
    for (const int number : of_domain_[d]) {
      core_changed_[physical_[static_cast<std::size_t>(
          streams_[static_cast<std::size_t>(number)].core)]] = 1;
    }
  }
  for (std::size_t c = 0; c < core_share_.size(); ++c) {
    if (core_changed_[physical_[c]] != 0) demands_.clear_core(c, nodes, core_share_[c]);
  }
  for (std::size_t p = 0; p < of_physical_.size(); ++p) {
    if (core_changed_[p] == 0) continue;
    const std::vector<int>& list = of_physical_[p];
    for (std::size_t at = 0; at < list.size();) {
      const auto begin = static_cast<std::size_t>(list[at]);
      const auto e = static_cast<std::size_t>(streams_[begin].executing);
      const auto c = static_cast<std::size_t>(streams_[begin].core);
      const double queries = streams_[begin].queries;
      double fixed = queries * (computation_ns_[e] + l2_ns_[e]);
      double stalls = 0.0;
      for (; at < list.size(); ++at) {
        const auto i = static_cast<std::size_t>(list[at]);
        if (streams_[i].executing != static_cast<int>(e)) break;
        const Demand& demand = demand_[i];
        const std::size_t memory = c * nodes + static_cast<std::size_t>(streams_[i].node);
        fixed += demand.llc_ns + demand.other_ns + demand.walk_ns;
        stalls += demand.dram_ns;
        demands_.stall_ns[memory] += demand.dram_ns;
        demands_.read_bytes[memory] += demand.read_bytes;
        demands_.written_bytes[memory] += demand.written_bytes;
      }
      demands_.fixed_ns[c] += fixed;
      const double share = queries * profiles_.share[e];
      if (share > 0.0) {
        demands_.square_ns2[c] +=
            (1.0 + profiles_.variation[e]) * (fixed + stalls) * (fixed + stalls) / share;
      }
    }
  }
  if (routing_ == Routing::core) return;
  for (std::size_t c = 0; c < alike_.size(); ++c) {
    if (alike_[c] >= 0) demands_.copy_core(static_cast<std::size_t>(alike_[c]), c, nodes);
  }
}

void Model::refresh() {
  measure_reach();
  for (std::size_t p = 0; p < of_physical_.size(); ++p) {
    if (core_changed_[p] == 0) continue;
    if (!of_physical_[p].empty()) {
      if (shared_lines_) {
        solve_private(p);
        solve_pages(p);
      } else {
        look_up_core(p);
      }
    }
    // The last level sees what the private caches do not keep.
    for (const int number : of_physical_[p]) {
      domain_changed_[domain_of(streams_[static_cast<std::size_t>(number)])] = 1;
    }
  }
  for (std::size_t d = 0; d < of_domain_.size(); ++d) {
    if (passing_per_ns_[d] > 0.0) domain_changed_[d] = 1;
  }
  ns_per_unit_ = 0.0;
  double x = 0.0;
  for (int round = 0; round < (passing_ ? passing_rounds : 1); ++round) {
    for (std::size_t d = 0; d < of_domain_.size(); ++d) {
      if (domain_changed_[d] == 0 || of_domain_[d].empty()) continue;
      if (round > 0 && passing_per_ns_[d] == 0.0) continue;
      if (shared_lines_) {
        solve_domain(d);
        for (const int number : of_domain_[d]) refresh_stream(static_cast<std::size_t>(number));
      } else {
        look_up_domain(d);
      }
    }
    sum_demands();
    x = contention_.solve(demands_);
    const auto active = static_cast<double>(
        std::count_if(core_share_.begin(), core_share_.end(), [](double s) { return s > 0.0; }));
    ns_per_unit_ = (load_.kind == Load::Kind::saturated ? active : 1.0) / x;
  }
  throughput_ = 1e3 * x;
}

}  // namespace pmoss::analytic
