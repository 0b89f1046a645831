#include "analytic/contention.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "analytic/queueing.hpp"
#include "machine/numa_balancing.hpp"

namespace pmoss::analytic {
namespace {

constexpr double tolerance = 1e-9;
// However busy a memory or link is, the index and a copy may take this share of it.
constexpr double least_share = 0.02;
// Where co-tenants use more of a memory or link, the index is held to what they leave: beyond that
// latency rises with this slope, too. Of other families than starved nodes, tasks draw less.
constexpr double starving_use = 0.9;
constexpr double starving_slope = 40.0;
constexpr int copy_step_limit = 100;

double value_or_0(const std::vector<double>& values, std::size_t i) {
  return values.empty() ? 0.0 : values[i];
}

}  // namespace

void Demands::clear(std::size_t cores, std::size_t nodes) {
  for (auto* values : {&share, &fixed_ns, &square_ns2}) values->assign(cores, 0.0);
  memory.assign(cores * nodes, {});
  version.assign(cores, ++latest_);
}

void Demands::clear_core(std::size_t core, std::size_t nodes, double new_share) {
  version[core] = ++latest_;
  share[core] = new_share;
  fixed_ns[core] = square_ns2[core] = 0.0;
  std::fill_n(&memory[core * nodes], nodes, MemoryDemand{});
}

void Demands::copy_core(std::size_t from, std::size_t to, std::size_t nodes) {
  if (from == to) return;
  version[to] = ++latest_;
  for (auto* values : {&share, &fixed_ns, &square_ns2}) (*values)[to] = (*values)[from];
  std::copy_n(&memory[from * nodes], nodes, &memory[to * nodes]);
}

Contention::Contention(const Machine& machine, const Load& load, bool dispatched)
    : machine_(machine),
      load_(load),
      dram_latency_(machine.dram_curve),
      link_latency_(machine.link_curve),
      routes_(machine),
      router_ns_(dispatched ? machine.dispatch_ns / machine.routers : 0.0),
      population_(load.outstanding_per_worker * static_cast<double>(machine.workers())),
      asked_(static_cast<std::size_t>(machine.cores())) {
  const auto cores = static_cast<std::size_t>(machine.cores());
  const auto nodes = static_cast<std::size_t>(machine.nodes());
  sibling_.resize(cores);
  for (std::size_t a = 0; a < cores; ++a) {
    for (std::size_t b = 0; b < cores; ++b) {
      if (a == b || machine.physical_of_core[a] != machine.physical_of_core[b] ||
          machine.is_worker[a] == 0 || machine.is_worker[b] == 0) {
        continue;
      }
      sibling_[a].push_back(b);
      any_sibling_ = true;
    }
  }
  const std::size_t resources = nodes + routes_.links();
  for (auto* values : {&co_tenant_use_, &copy_use_, &total_use_, &use_, &smooth_use_, &step_,
                       &last_change_, &latency_}) {
    values->assign(resources, 0.0);
  }
  for (auto* values : {&co_tenant_sibling_, &total_ns_, &core_rate_, &burst_}) {
    values->assign(cores, 0.0);
  }
  busy_slowdown_.assign(cores, 1.0);
  slowdown_.assign(cores, 1.0);
  multiplier_.assign(nodes * nodes, 1.0);
  path_used_.assign(nodes * nodes, 0);
  active_.resize(cores);
  stalls_.resize(cores * nodes);
  base_ns_.assign(cores, 0.0);
  for (auto* values : {&demand_, &station_burst_}) {
    values->assign(cores + static_cast<std::size_t>(machine.routers), 0.0);
  }
}

void Contention::set_interference(const Interference& interference) {
  const std::size_t nodes = machine_.socket_of_node.size();
  for (std::size_t c = 0; c < busy_slowdown_.size(); ++c) {
    busy_slowdown_[c] = 1.0 / (1.0 - value_or_0(interference.busy_share, c));
    co_tenant_sibling_[c] = value_or_0(interference.sibling_busy_share, c);
  }
  std::fill(co_tenant_use_.begin(), co_tenant_use_.end(), 0.0);
  for (std::size_t m = 0; m < nodes; ++m) {
    co_tenant_use_[m] = value_or_0(interference.dram_gb_per_s, m) / machine_.dram_gb_per_s[m];
  }
  for (std::size_t link = 0; link < machine_.link_gb_per_s.size(); ++link) {
    const double taken = value_or_0(interference.link_gb_per_s, link);
    if (taken > 0.0) co_tenant_use_[nodes + link] = taken / machine_.link_gb_per_s[link];
  }
}

void Contention::set_hint_faults(bool there_are) {
  const double share = NumaBalancing{}.fault_share(machine_.workers());
  fault_slowdown_ = there_are ? 1.0 / (1.0 - share) : 1.0;
}

void Contention::set_copying(const Copying* copying) {
  copies_ = copying != nullptr;
  copied_gb_per_s_ = 0.0;
  std::fill(copy_use_.begin(), copy_use_.end(), 0.0);
  copy_asks_.clear();
  if (!copies_) return;
  copying_ = *copying;
  const std::size_t nodes = machine_.socket_of_node.size();
  const std::size_t from = copying_.source, to = copying_.target;
  copy_asks_.push_back({from, 1.0 / machine_.dram_gb_per_s[from]});
  copy_asks_.push_back({to, 1.0 / machine_.dram_write_gb_per_s[to]});
  for (const std::uint32_t link : routes_.between_nodes(from, to)) {
    copy_asks_.push_back({nodes + link, 1.0 / machine_.link_gb_per_s[link]});
  }
}

/// What a line of the copy takes where queries use the memories and links like that, and the copy
/// makes so many GB/s. It is that of reading from afar or of writing beside, whichever is longer.
double Contention::line_ns(const std::vector<double>& use, double gb_per_s) const {
  const auto latency = [&](const Use& ask, const LoadedLatency& curve) {
    const std::size_t i = ask.resource;
    return curve.at(use[i] + co_tenant_use_[i] + ask.use * gb_per_s);
  };
  const int from = static_cast<int>(copying_.source), to = static_cast<int>(copying_.target);
  double reading = machine_.dram_latency(to, from) * latency(copy_asks_[0], dram_latency_);
  for (const Use& link : std::span(copy_asks_).subspan(2)) reading *= latency(link, link_latency_);
  return std::max(reading, machine_.dram_latency(to, to) * latency(copy_asks_[1], dram_latency_));
}

/// How fast the copy is where queries use the memories and links like that. Its lines in flight
/// wait for the latency to which the copy itself adds: the rate at which the two agree is found by
/// false position with Illinois' halving. It takes no more of anything than co-tenants leave.
void Contention::copy_beside(const std::vector<double>& use) {
  if (!copies_) return;
  constexpr double line_bytes = 64.0;
  const double in_flight = line_bytes * machine_.mlp_streaming;
  // 1 byte per nanosecond is 1 GB/s.
  const auto surplus = [&](double rate) { return rate * line_ns(use, rate) - in_flight; };
  double rate = std::min(copying_.most_gb_per_s, in_flight / line_ns(use, 0.0));
  for (const Use& ask : copy_asks_) {
    rate = std::min(rate, std::max(least_share, 1.0 - co_tenant_use_[ask.resource]) / ask.use);
  }
  double low = 0.0, high = rate, below = -in_flight, above = surplus(high);
  int side = 0;
  for (int step = 0; above > tolerance * in_flight && step < copy_step_limit; ++step) {
    rate = (low * above - high * below) / (above - below);
    const double value = surplus(rate);
    if (std::abs(value) <= tolerance * in_flight) break;
    if (value < 0.0) {
      low = rate;
      below = value;
      if (side == -1) above *= 0.5;
      side = -1;
    } else {
      high = rate;
      above = value;
      if (side == 1) below *= 0.5;
      side = 1;
    }
  }
  copied_gb_per_s_ = rate;
  for (const Use& ask : copy_asks_) copy_use_[ask.resource] = ask.use * rate;
}

void Contention::add_use(std::size_t core, std::size_t node, double read, double written) {
  const std::size_t nodes = machine_.socket_of_node.size();
  std::vector<Use>& uses = asked_[core].uses;
  // 1 byte per nanosecond is 1 GB/s.
  uses.push_back(
      {node, read / machine_.dram_gb_per_s[node] + written / machine_.dram_write_gb_per_s[node]});
  const auto core_node = static_cast<std::size_t>(machine_.node_of_core[core]);
  for (const std::uint32_t link : routes_.between_nodes(node, core_node)) {
    uses.push_back({nodes + link, read / machine_.link_gb_per_s[link]});
  }
  for (const std::uint32_t link : routes_.between_nodes(core_node, node)) {
    uses.push_back({nodes + link, written / machine_.link_gb_per_s[link]});
  }
}

void Contention::ask(const Demands& demands, std::size_t c) {
  const std::size_t nodes = machine_.socket_of_node.size();
  Asked& asked = asked_[c];
  asked.version = demands.version[c];
  asked.uses.clear();
  asked.stalls.clear();
  const auto row = static_cast<std::size_t>(machine_.node_of_core[c]) * nodes;
  double idle_ns = demands.fixed_ns[c];
  for (std::size_t m = 0; m < nodes; ++m) {
    const MemoryDemand& memory = demands.memory[c * nodes + m];
    if (memory.read_bytes == 0.0 && memory.written_bytes == 0.0) continue;
    add_use(c, m, memory.read_bytes, memory.written_bytes);
    asked.stalls.push_back({row + m, memory.stall_ns});
    idle_ns += memory.stall_ns;
  }
  asked.burst = 0.5 * demands.square_ns2[c] * demands.share[c] / (idle_ns * idle_ns);
}

void Contention::collect(const Demands& demands) {
  for (const std::size_t path : paths_) path_used_[path] = 0;
  paths_.clear();
  std::fill(total_use_.begin(), total_use_.end(), 0.0);
  double* const total_use = total_use_.data();
  Stall* stall = stalls_.data();
  Active* active = active_.data();
  double* burst = station_burst_.data();
  const std::size_t cores = total_ns_.size();
  for (std::size_t c = 0; c < cores; ++c) {
    total_ns_[c] = 0.0;
    if (demands.share[c] == 0.0) {
      core_rate_[c] = 0.0;
      burst_[c] = 1.0;
      continue;
    }
    if (asked_[c].version != demands.version[c]) ask(demands, c);
    const Asked& asked = asked_[c];
    for (const Use& use : asked.uses) total_use[use.resource] += use.use;
    for (const Stall& stall_of_core : asked.stalls) {
      *stall++ = stall_of_core;
      if (path_used_[stall_of_core.path] != 0) continue;
      path_used_[stall_of_core.path] = 1;
      paths_.push_back(stall_of_core.path);
    }
    *burst++ = burst_[c] = asked.burst;
    *active++ = {c, static_cast<std::size_t>(stall - stalls_.data()), demands.fixed_ns[c], 1.0};
  }
  stations_ = active_count_ = static_cast<std::size_t>(active - active_.data());
  resources_.clear();
  for (std::size_t i = 0; i < total_use_.size(); ++i) {
    latency_[i] = 1.0;  // where no query needs it
    if (total_use_[i] != 0.0 || co_tenant_use_[i] != 0.0) resources_.push_back(i);
  }
  for (const Use& ask : copy_asks_) {
    const std::size_t i = ask.resource;
    copy_use_[i] = 0.0;
    if (total_use_[i] == 0.0 && co_tenant_use_[i] == 0.0) resources_.push_back(i);
  }
  if (router_ns_ > 0.0) {
    // A router takes the same time for every query.
    for (int router = 0; router < machine_.routers; ++router) {
      demand_[stations_] = router_ns_;
      station_burst_[stations_++] = 0.5;
    }
  }
}

void Contention::load_memory(const std::vector<double>& use) {
  const std::size_t nodes = machine_.socket_of_node.size();
  for (const std::size_t i : resources_) {
    const LoadedLatency& curve = i < nodes ? dram_latency_ : link_latency_;
    const double all = use[i] + co_tenant_use_[i] + copy_use_[i];
    latency_[i] = all == 0.0 ? 1.0 : curve.at(all);
    if (co_tenant_use_[i] >= starving_use) {
      // By the sum of all uses the index would get several times what is left, for the line beyond
      // saturation is flat beside so little.
      const double left = std::max(least_share, 1.0 - co_tenant_use_[i]);
      const double of_left = (use[i] + copy_use_[i]) / left;
      const double beyond = 1.0 + starving_slope * std::max(0.0, of_left - 1.0);
      latency_[i] = std::max(latency_[i], curve.at(of_left) * beyond);
    }
  }
  for (const std::size_t path : paths_) {
    const std::size_t reader = path / nodes, owner = path % nodes;
    double latency = latency_[owner];
    for (const std::uint32_t link : routes_.between_nodes(owner, reader)) {
      latency *= latency_[nodes + link];
    }
    multiplier_[path] = latency;
  }
}

void Contention::slow_cores(const Demands& demands, double throughput) {
  const double half_speed = 1.0 / machine_.smt_share - 1.0;
  for (Active& active : std::span(active_).first(active_count_)) {
    const std::size_t c = active.core;
    double beside = co_tenant_sibling_[c];
    for (const std::size_t s : sibling_[c]) {
      // How busy the sibling is, by its time of the step before.
      const double busy = load_.kind == Load::Kind::saturated
                              ? (demands.share[s] > 0.0 ? 1.0 : 0.0)
                              : std::min(1.0, throughput * total_ns_[s]);
      beside = 1.0 - (1.0 - beside) * (1.0 - busy);
    }
    slowdown_[c] = busy_slowdown_[c] * fault_slowdown_ * (1.0 + half_speed * beside);
    active.slowdown = slowdown_[c];
  }
}

void Contention::time_cores() {
  const Stall* stall = stalls_.data();
  const double* const multiplier = multiplier_.data();
  double *base = base_ns_.data(), *demand = demand_.data();
  for (const Active& active : std::span(active_).first(active_count_)) {
    double ns = active.fixed_ns;
    for (const Stall* const end = stalls_.data() + active.stalls_end; stall != end; ++stall) {
      ns += stall->idle_ns * multiplier[stall->path];
    }
    *base++ = ns;
    *demand++ = ns * active.slowdown;
  }
}

/// Notes the times of the active cores by their numbers.
void Contention::take_times() {
  for (std::size_t i = 0; i < active_count_; ++i) total_ns_[active_[i].core] = demand_[i];
}

/// Whether a core's slowdown depends on the throughput.
bool Contention::siblings_follow() const {
  return any_sibling_ && load_.kind != Load::Kind::saturated;
}

// Times are in nanoseconds per query, so throughputs are in queries per nanosecond.
double Contention::serve(const Demands& demands, double throughput) {
  time_cores();
  // A sibling's time depends on this core's; both converge within a few rounds.
  for (int round = 0; siblings_follow() && round < 6; ++round) {
    slow_cores(demands, throughput);
    for (std::size_t i = 0; i < active_count_; ++i) demand_[i] = base_ns_[i] * active_[i].slowdown;
    take_times();
  }
  if (load_.kind != Load::Kind::saturated) {
    const double x = closed_throughput(std::span(demand_).first(stations_), station_burst_,
                                       population_, throughput);
    return load_.kind == Load::Kind::open ? std::min(x, load_.offered_mq_per_s * 1e-3) : x;
  }
  double x = 0.0;
  for (std::size_t i = 0; i < active_count_; ++i) {
    const std::size_t c = active_[i].core;
    core_rate_[c] = demands.share[c] / demand_[i];
    x += core_rate_[c];
  }
  if (router_ns_ > 0.0 && x * router_ns_ > 1.0) {
    // The routers feed the cores no faster, each by its share of what all could take.
    for (const Active& active : std::span(active_).first(active_count_))
      core_rate_[active.core] /= x * router_ns_;
    x = 1.0 / router_ns_;
  }
  return x;
}

// Cores work at paces of their own. Each node and link approaches its use by a step of its own. The
// step halves on an overshoot and grows otherwise, so that no use oscillates for ever.
double Contention::solve_saturated(const Demands& demands) {
  double x = serve(demands, 0.0);
  std::fill(smooth_use_.begin(), smooth_use_.end(), 0.0);
  std::fill(step_.begin(), step_.end(), 1.0);
  std::fill(last_change_.begin(), last_change_.end(), 0.0);
  double furthest = 1.0;
  while (furthest > tolerance && steps_ < step_limit) {
    furthest = 0.0;
    std::fill(use_.begin(), use_.end(), 0.0);
    for (const Active& active : std::span(active_).first(active_count_)) {
      const std::size_t c = active.core;
      for (const Use& use : asked_[c].uses) {
        use_[use.resource] += use.use * (core_rate_[c] / demands.share[c]);
      }
    }
    for (std::size_t i = 0; i < use_.size(); ++i) {
      if (total_use_[i] == 0.0) continue;
      const double change = use_[i] - smooth_use_[i];
      step_[i] = change * last_change_[i] < 0.0 ? 0.5 * step_[i] : std::min(1.0, 1.1 * step_[i]);
      smooth_use_[i] += step_[i] * change;
      last_change_[i] = change;
      furthest = std::max(furthest, std::abs(change));
    }
    copy_beside(smooth_use_);
    load_memory(smooth_use_);
    x = serve(demands, 0.0);
    ++steps_;
  }
  return x;
}

// All cores share one throughput. The throughput that memory allows falls as it rises. So the
// crossing lies between 0 and what idle memory allows, in which nothing is copied either. It is
// found by false position with Illinois' halving.
double Contention::solve_shared(const Demands& demands) {
  const auto surplus = [&](double throughput) {
    for (std::size_t i = 0; i < use_.size(); ++i) use_[i] = throughput * total_use_[i];
    copy_beside(use_);
    load_memory(use_);
    ++steps_;
    return serve(demands, throughput) - throughput;
  };
  double x = serve(demands, 0.0);
  double low = 0.0, high = x;
  double above = x;  // surplus at low
  double below = surplus(high);
  int side = 0;
  while (below < -tolerance * x && steps_ < step_limit) {
    x = (low * below - high * above) / (below - above);
    const double value = surplus(x);
    if (std::abs(value) <= tolerance * x) break;
    if (value > 0.0) {
      low = x;
      above = value;
      if (side == 1) below *= 0.5;
      side = 1;
    } else {
      high = x;
      below = value;
      if (side == -1) above *= 0.5;
      side = -1;
    }
  }
  for (const Active& active : std::span(active_).first(active_count_)) {
    core_rate_[active.core] = x * demands.share[active.core];
  }
  return x;
}

double Contention::solve(const Demands& demands) {
  collect(demands);
  std::fill(use_.begin(), use_.end(), 0.0);
  load_memory(use_);
  steps_ = 1;
  if (!siblings_follow()) slow_cores(demands, 0.0);
  const double x =
      load_.kind == Load::Kind::saturated ? solve_saturated(demands) : solve_shared(demands);
  take_times();
  return x;
}

}  // namespace pmoss::analytic
