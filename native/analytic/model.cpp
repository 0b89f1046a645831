#include "analytic/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "analytic/fast_exp.hpp"
#include "analytic/queueing.hpp"
#include "workload/portable_math.hpp"

namespace pmoss::analytic {
namespace {

constexpr double line_bytes = 64.0;
// The first cycle of Che's fixed point starts left of the root of a concave function, so Newton's
// method climbs to it; the count is fixed so that every path to a schedule gives the same bits.
constexpr int cache_iterations = 10;
constexpr double contention_tolerance = 1e-9;
// A fair scheduler lets two runnable threads alternate every few milliseconds.
constexpr double time_slice_us = 3000.0;

[[noreturn]] void refuse(const std::string& text) { throw std::invalid_argument(text); }

Machine completed(Machine machine) {
  machine.complete();
  return machine;
}

}  // namespace

Model::Model(Machine machine, Load load)
    : machine_(completed(std::move(machine))),
      load_(load),
      dram_latency_(machine_.dram_curve),
      link_latency_(machine_.link_curve) {
  load_.validate();
  const auto cores = static_cast<std::size_t>(machine_.cores());
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  const auto domains = static_cast<std::size_t>(machine_.llc_domains());
  core_share_.assign(cores, 0.0);
  core_pages_.assign(cores, 0.0);
  core_time_.assign(cores, 0.0);
  llc_time_.assign(domains, 0.0);
  core_rate_.assign(cores, 0.0);
  service_ns_.assign(cores, 0.0);
  multiplier_.assign(nodes * nodes, 1.0);
  demand_.assign(cores, 0.0);
  dram_demand_.assign(cores * nodes, 0.0);
  read_bytes_.assign(cores * nodes, 0.0);
  written_bytes_.assign(cores * nodes, 0.0);
  total_.assign(cores, 0.0);
  const auto sockets = static_cast<std::size_t>(machine_.sockets());
  for (auto* values : {&use_, &smooth_use_, &step_, &last_change_, &latency_}) {
    values->assign(nodes + sockets * sockets, 0.0);
  }
  active_.reserve(cores);
  core_changed_.assign(cores, 0);
  llc_changed_.assign(domains, 0);
}

void Model::set_instance(SliceProfiles profiles, std::vector<double> busy_share) {
  if (busy_share.size() != static_cast<std::size_t>(machine_.cores())) {
    refuse("length of busy_share = " + std::to_string(busy_share.size()) + ": must be " +
           std::to_string(machine_.cores()) + ", one per core");
  }
  for (const double share : busy_share) {
    if (!(share >= 0.0 && share < 1.0)) {
      refuse("busy_share = " + std::to_string(share) + ": must lie in [0, 1)");
    }
  }
  profiles_ = std::move(profiles);
  slowdown_.resize(busy_share.size());
  std::transform(busy_share.begin(), busy_share.end(), slowdown_.begin(),
                 [](double share) { return 1.0 / (1.0 - share); });
  const auto n = static_cast<std::size_t>(profiles_.slices);
  core_.assign(n, -1);
  node_.assign(n, -1);
  llc_.assign(n, -1);
  state_.assign(n, SliceState{});
  beyond_llc_.assign(n * line_classes, 0.0);
  scratch_lines_.assign(n * line_classes, 0.0);
  scratch_rates_.assign(n * line_classes, 0.0);
  members_.reserve(n);
  throughput_ = 0.0;
}

void Model::check_position(int slice, int core, int node) const {
  if (core < 0 || core >= machine_.cores() ||
      machine_.is_worker[static_cast<std::size_t>(core)] == 0) {
    refuse("slice " + std::to_string(slice) + ": core " + std::to_string(core) +
           " is not a worker of this machine");
  }
  if (node < 0 || node >= machine_.nodes()) {
    refuse("slice " + std::to_string(slice) + ": node " + std::to_string(node) +
           " does not exist; nodes are 0 to " + std::to_string(machine_.nodes() - 1));
  }
}

double Model::place(std::span<const std::int32_t> cores, std::span<const std::int32_t> nodes) {
  const auto n = static_cast<std::size_t>(profiles_.slices);
  if (n == 0) refuse("no workload instance: call set_instance() first");
  if (cores.size() != n || nodes.size() != n) {
    refuse("a schedule of " + std::to_string(cores.size()) + " cores and " +
           std::to_string(nodes.size()) + " nodes: must place exactly " + std::to_string(n) +
           " slices");
  }
  for (std::size_t s = 0; s < n; ++s) check_position(static_cast<int>(s), cores[s], nodes[s]);
  for (std::size_t s = 0; s < n; ++s) {
    core_[s] = cores[s];
    node_[s] = nodes[s];
    llc_[s] = machine_.llc_of(cores[s], nodes[s]);
  }
  std::fill(core_changed_.begin(), core_changed_.end(), std::uint8_t{1});
  std::fill(llc_changed_.begin(), llc_changed_.end(), std::uint8_t{1});
  refresh(core_changed_, llc_changed_);
  return throughput_;
}

double Model::move(int slice, int core, int node) {
  if (slice < 0 || slice >= profiles_.slices) {
    refuse("slice " + std::to_string(slice) + ": must lie between 0 and " +
           std::to_string(profiles_.slices - 1));
  }
  const auto s = static_cast<std::size_t>(slice);
  if (core_[s] < 0) refuse("no schedule to change: call place() first");
  check_position(slice, core, node);
  if (core_[s] == core && node_[s] == node) return throughput_;
  std::fill(core_changed_.begin(), core_changed_.end(), std::uint8_t{0});
  std::fill(llc_changed_.begin(), llc_changed_.end(), std::uint8_t{0});
  core_changed_[static_cast<std::size_t>(core_[s])] = 1;
  llc_changed_[static_cast<std::size_t>(llc_[s])] = 1;
  core_[s] = core;
  node_[s] = node;
  llc_[s] = machine_.llc_of(core, node);
  core_changed_[static_cast<std::size_t>(core)] = 1;
  llc_changed_[static_cast<std::size_t>(llc_[s])] = 1;
  if (load_.kind == Load::Kind::saturated) {
    // The pace of a changed core matters in every domain that caches one of its slices.
    for (std::size_t other = 0; other < core_.size(); ++other) {
      if (core_changed_[static_cast<std::size_t>(core_[other])] != 0) {
        llc_changed_[static_cast<std::size_t>(llc_[other])] = 1;
      }
    }
  }
  refresh(core_changed_, llc_changed_);
  return throughput_;
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

// Rates are per query of the workload. Under saturation each core works at its own pace instead,
// and its slices share that core's queries.
double Model::pace(std::size_t slice) const {
  if (load_.kind != Load::Kind::saturated) return 1.0;
  const double share = core_share_[static_cast<std::size_t>(core_[slice])];
  return share > 0.0 ? 1.0 / share : 1.0;
}

// Che's approximation: every line stays for one common time T after its last touch, and T is the
// time in which as many distinct lines are touched as the cache holds. Time is counted in queries.
double Model::characteristic_time(std::span<const int> members, double capacity_lines) {
  std::size_t n = 0;
  double total_lines = 0.0;
  double total_rate = 0.0;
  for (const int s : members) {
    const std::size_t row = static_cast<std::size_t>(s) * line_classes;
    const double scale = pace(static_cast<std::size_t>(s));
    for (std::size_t k = 0; k < line_classes; ++k) {
      scratch_rates_[n] = scale * profiles_.line_rate[row + k];
      // What is never touched takes no room.
      scratch_lines_[n] = scratch_rates_[n] > 0.0 ? profiles_.lines[row + k] : 0.0;
      total_lines += scratch_lines_[n];
      total_rate += scratch_lines_[n] * scratch_rates_[n];
      ++n;
    }
  }
  if (total_lines <= capacity_lines) return std::numeric_limits<double>::infinity();
  double time = capacity_lines / total_rate;
  for (int step = 0; step < cache_iterations; ++step) {
    // Four explicit lanes: the same sums whether or not the compiler vectorises them.
    std::array<double, 4> absent{}, slope{};
    for (std::size_t i = 0; i < n; i += 4) {  // n is a multiple of line_classes, so of 4
      for (std::size_t lane = 0; lane < 4; ++lane) {
        const double e =
            scratch_lines_[i + lane] * exp_of_negative(-scratch_rates_[i + lane] * time);
        absent[lane] += e;
        slope[lane] += e * scratch_rates_[i + lane];
      }
    }
    const double present = total_lines - ((absent[0] + absent[1]) + (absent[2] + absent[3]));
    const double gradient = (slope[0] + slope[1]) + (slope[2] + slope[3]);
    const double change = (capacity_lines - present) / gradient;
    time += change;
    if (change <= 1e-9 * time) break;
  }
  return time;
}
static_assert(line_classes % 4 == 0);

void Model::refresh(const std::vector<std::uint8_t>& core_changed,
                    const std::vector<std::uint8_t>& llc_changed) {
  const auto n = static_cast<std::size_t>(profiles_.slices);
  const auto cores = static_cast<std::size_t>(machine_.cores());
  for (std::size_t c = 0; c < cores; ++c) {
    if (core_changed[c] == 0) continue;
    core_share_[c] = 0.0;
    core_pages_[c] = 0.0;
  }
  for (std::size_t s = 0; s < n; ++s) {
    const auto c = static_cast<std::size_t>(core_[s]);
    if (core_changed[c] == 0) continue;
    core_share_[c] += profiles_.share[s];
    core_pages_[c] += profiles_.data_bytes[s] / machine_.page_bytes;
  }
  for (std::size_t c = 0; c < cores; ++c) {
    if (core_changed[c] == 0) continue;
    members_.clear();
    for (std::size_t s = 0; s < n; ++s) {
      if (core_[s] == static_cast<int>(c)) members_.push_back(static_cast<int>(s));
    }
    core_time_[c] = members_.empty() ? 0.0 : characteristic_time(members_, machine_.l2_lines);
  }
  for (std::size_t d = 0; d < llc_time_.size(); ++d) {
    if (llc_changed[d] == 0) continue;
    members_.clear();
    for (std::size_t s = 0; s < n; ++s) {
      if (llc_[s] == static_cast<int>(d)) members_.push_back(static_cast<int>(s));
    }
    double workers = 0.0;
    for (std::size_t c = 0; c < cores; ++c) {
      if (machine_.llc_of_core[c] == static_cast<int>(d) && machine_.is_worker[c] != 0) {
        workers += 1.0;
      }
    }
    const double capacity =
        machine_.llc_lines + machine_.llc_victim_share * workers * machine_.l2_lines;
    llc_time_[d] = members_.empty() ? 0.0 : characteristic_time(members_, capacity);
  }
  for (std::size_t s = 0; s < n; ++s) {
    if (core_changed[static_cast<std::size_t>(core_[s])] != 0 ||
        llc_changed[static_cast<std::size_t>(llc_[s])] != 0) {
      refresh_slice(s);
    }
  }
  solve_contention();
}

void Model::refresh_slice(std::size_t s) {
  const auto c = static_cast<std::size_t>(core_[s]);
  const std::size_t row = s * line_classes;
  const double scale = pace(s);
  const double l2_time = core_time_[c];
  // A line of the private cache is in the domain's reach too (victim or inclusive alike).
  const double llc_time = std::max(l2_time, llc_time_[static_cast<std::size_t>(llc_[s])]);
  SliceState state;
  double dram_stalls = 0.0;
  for (std::size_t k = 0; k < line_classes; ++k) {
    const double rate = scale * profiles_.line_rate[row + k];
    const double beyond_l2 = std::isinf(l2_time) ? 0.0 : exp_of_negative(-rate * l2_time);
    const double beyond_llc = std::isinf(llc_time) ? 0.0 : exp_of_negative(-rate * llc_time);
    beyond_llc_[row + k] = beyond_llc;
    const double waits = profiles_.dependent[row + k] / machine_.mlp_dependent +
                         profiles_.streaming[row + k] / machine_.mlp_streaming;
    state.llc_ns += waits * (beyond_l2 - beyond_llc) * machine_.llc_ns;
    dram_stalls += waits * beyond_llc;
    const double touched = profiles_.lines[row + k] * profiles_.line_rate[row + k];
    state.read_bytes += line_bytes * touched * beyond_llc;
    // A line goes back to memory if any touch wrote it while it stayed: of the touches of one stay,
    // 1 / beyond_llc on average, each writes with the dirty share.
    const double dirty = profiles_.dirty_share[row + k];
    const double written_back = dirty > 0.0 ? dirty / (dirty + (1.0 - dirty) * beyond_llc) : 0.0;
    state.write_bytes += line_bytes * touched * beyond_llc * written_back;
    state.dram_loads += profiles_.dependent[row + k] * beyond_llc;
  }
  const int core_node = machine_.node_of_core[c];
  state.dram_ns = dram_stalls * machine_.dram_latency(core_node, node_[s]);
  const double absent_page = std::max(0.0, 1.0 - machine_.tlb_pages / core_pages_[c]);
  state.dtlb_misses = profiles_.cold_page_touches[s] * absent_page;
  state.walk_ns = state.dtlb_misses * machine_.page_walk_ns;
  const double computation_ns = (profiles_.instructions[s] / machine_.instructions_per_cycle +
                                 profiles_.branch_misses[s] * machine_.branch_miss_cycles) /
                                machine_.clock_ghz;
  state.fixed_ns = profiles_.share[s] * computation_ns + state.llc_ns + state.walk_ns;
  state_[s] = state;
}

void Model::sum_demands() {
  const auto n = static_cast<std::size_t>(profiles_.slices);
  const auto cores = static_cast<std::size_t>(machine_.cores());
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  std::fill(demand_.begin(), demand_.end(), 0.0);
  std::fill(dram_demand_.begin(), dram_demand_.end(), 0.0);
  std::fill(read_bytes_.begin(), read_bytes_.end(), 0.0);
  std::fill(written_bytes_.begin(), written_bytes_.end(), 0.0);
  for (std::size_t s = 0; s < n; ++s) {
    const auto c = static_cast<std::size_t>(core_[s]);
    const auto m = static_cast<std::size_t>(node_[s]);
    demand_[c] += state_[s].fixed_ns;
    dram_demand_[c * nodes + m] += state_[s].dram_ns;
    read_bytes_[c * nodes + m] += state_[s].read_bytes;
    written_bytes_[c * nodes + m] += state_[s].write_bytes;
  }
  active_.clear();
  for (std::size_t c = 0; c < cores; ++c) {
    total_[c] = 0.0;
    core_rate_[c] = 0.0;
    if (core_share_[c] > 0.0) active_.push_back(c);
  }
}

// Times are in nanoseconds per query, so throughputs are in queries per nanosecond.
double Model::serve() {
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  for (const std::size_t c : active_) {
    double ns = demand_[c];
    const auto from = static_cast<std::size_t>(machine_.node_of_core[c]);
    for (std::size_t m = 0; m < nodes; ++m) {
      ns += dram_demand_[c * nodes + m] * multiplier_[from * nodes + m];
    }
    total_[c] = ns * slowdown_[c];
  }
  if (load_.kind != Load::Kind::saturated) {
    const double population =
        load_.outstanding_per_worker * static_cast<double>(machine_.workers());
    const double x = closed_throughput(total_, population);
    return load_.kind == Load::Kind::open ? std::min(x, load_.offered_mq_per_s * 1e-3) : x;
  }
  double x = 0.0;
  for (const std::size_t c : active_) {
    core_rate_[c] = core_share_[c] / total_[c];
    x += core_rate_[c];
  }
  return x;
}

void Model::measure_use() {
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  const auto sockets = static_cast<std::size_t>(machine_.sockets());
  std::fill(use_.begin(), use_.end(), 0.0);
  double* const link_use = use_.data() + nodes;
  for (const std::size_t c : active_) {
    const double rate = core_rate_[c] / core_share_[c];
    const auto from = static_cast<std::size_t>(
        machine_.socket_of_node[static_cast<std::size_t>(machine_.node_of_core[c])]);
    for (std::size_t m = 0; m < nodes; ++m) {
      // 1 byte per nanosecond is 1 GB/s.
      const double read = rate * read_bytes_[c * nodes + m];
      const double written = rate * written_bytes_[c * nodes + m];
      use_[m] += read + written;
      const auto to = static_cast<std::size_t>(machine_.socket_of_node[m]);
      if (to == from) continue;
      link_use[to * sockets + from] += read;
      link_use[from * sockets + to] += written;
    }
  }
  for (std::size_t m = 0; m < nodes; ++m) use_[m] /= machine_.dram_gb_per_s[m];
  for (std::size_t link = 0; link < sockets * sockets; ++link) {
    // A socket has no link to itself.
    if (link_use[link] > 0.0) link_use[link] /= machine_.link_gb_per_s[link];
  }
}

void Model::load_memory(const std::vector<double>& use) {
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  const auto sockets = static_cast<std::size_t>(machine_.sockets());
  for (std::size_t i = 0; i < use.size(); ++i) {
    latency_[i] = (i < nodes ? dram_latency_ : link_latency_).at(use[i]);
  }
  const double* const link_latency = latency_.data() + nodes;
  for (std::size_t a = 0; a < nodes; ++a) {
    const auto from = static_cast<std::size_t>(machine_.socket_of_node[a]);
    for (std::size_t m = 0; m < nodes; ++m) {
      const auto to = static_cast<std::size_t>(machine_.socket_of_node[m]);
      multiplier_[a * nodes + m] = latency_[m] * link_latency[to * sockets + from];
    }
  }
}

// Throughput loads memory, and loaded memory lowers throughput.
void Model::solve_contention() {
  sum_demands();
  std::fill(multiplier_.begin(), multiplier_.end(), 1.0);
  double x = serve();
  steps_ = 1;
  if (load_.kind == Load::Kind::saturated) {
    // Cores work at paces of their own. Each node and link approaches its use by a step that
    // halves when it swings past and grows while it does not, so that none circles for ever.
    std::fill(smooth_use_.begin(), smooth_use_.end(), 0.0);
    std::fill(step_.begin(), step_.end(), 1.0);
    std::fill(last_change_.begin(), last_change_.end(), 0.0);
    double furthest = 1.0;
    while (furthest > contention_tolerance && steps_ < contention_limit) {
      measure_use();
      furthest = 0.0;
      for (std::size_t i = 0; i < use_.size(); ++i) {
        const double change = use_[i] - smooth_use_[i];
        step_[i] = change * last_change_[i] < 0.0 ? 0.5 * step_[i] : std::min(1.0, 1.1 * step_[i]);
        smooth_use_[i] += step_[i] * change;
        last_change_[i] = change;
        furthest = std::max(furthest, std::abs(change));
      }
      load_memory(smooth_use_);
      x = serve();
      ++steps_;
    }
  } else {
    // All cores share one throughput, and what memory then allows only falls with it: the crossing
    // lies between none and what idle memory allows. False position, with Illinois' halving.
    const auto surplus = [this](double throughput) {
      for (const std::size_t c : active_) core_rate_[c] = throughput * core_share_[c];
      measure_use();
      load_memory(use_);
      ++steps_;
      return serve() - throughput;
    };
    double low = 0.0, high = x;
    double above = x;  // surplus at low
    double below = surplus(high);
    int side = 0;
    while (below < -contention_tolerance * x && steps_ < contention_limit) {
      x = (low * below - high * above) / (below - above);
      const double value = surplus(x);
      if (std::abs(value) <= contention_tolerance * x) break;
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
    for (const std::size_t c : active_) core_rate_[c] = x * core_share_[c];
  }
  for (std::size_t c = 0; c < core_rate_.size(); ++c) {
    service_ns_[c] = core_share_[c] > 0.0 ? total_[c] / core_share_[c] : 0.0;
    core_rate_[c] *= 1e3;
  }
  throughput_ = 1e3 * x;
}

Snapshot Model::snapshot() const {
  const auto n = static_cast<std::size_t>(profiles_.slices);
  const auto cores = static_cast<std::size_t>(machine_.cores());
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  const auto sockets = static_cast<std::size_t>(machine_.sockets());
  if (n == 0 || core_[0] < 0) refuse("no schedule: call place() first");
  Snapshot result;
  result.throughput = throughput_;
  result.slices.resize(n);
  result.read_gb_per_s.assign(nodes, 0.0);
  result.write_gb_per_s.assign(nodes, 0.0);
  result.link_gb_per_s.assign(sockets * sockets, 0.0);
  for (std::size_t s = 0; s < n; ++s) {
    const auto c = static_cast<std::size_t>(core_[s]);
    const auto m = static_cast<std::size_t>(node_[s]);
    const auto a = static_cast<std::size_t>(machine_.node_of_core[c]);
    const std::size_t row = s * line_classes;
    const SliceState& state = state_[s];
    const double share = profiles_.share[s];
    SliceRates& r = result.slices[s];
    r = SliceRates{};
    if (share == 0.0) continue;
    const double queries = core_rate_[c] * share / core_share_[c];
    const double per_query = 1.0 / share;
    const double dram_ns = state.dram_ns * multiplier_[a * nodes + m];
    const double service_ns = (state.fixed_ns + dram_ns) * per_query;
    double touched = 0.0, absent = 0.0, absent_dirty = 0.0;
    for (std::size_t k = 0; k < line_classes; ++k) {
      const double touches = profiles_.lines[row + k] * profiles_.line_rate[row + k] * per_query;
      touched += touches;
      absent += touches * beyond_llc_[row + k];
      absent_dirty += touches * beyond_llc_[row + k] * profiles_.dirty_share[row + k];
    }
    const bool remote = a != m;
    r.throughput = queries;
    r.cycles = queries * service_ns * machine_.clock_ghz;
    r.instructions = queries * profiles_.instructions[s];
    r.l1d_misses = queries * touched;
    r.llc_misses = queries * (absent - absent_dirty);
    r.branch_misses = queries * profiles_.branch_misses[s];
    r.memory_accesses = queries * (absent - absent_dirty);
    r.memory_misses = remote ? r.memory_accesses : 0.0;
    r.dtlb_misses = queries * state.dtlb_misses * per_query;
    r.llc_write_misses = queries * absent_dirty;
    r.memory_write_misses = remote ? r.llc_write_misses : 0.0;
    const double loads = queries * state.dram_loads * per_query;
    r.local_dram = remote ? 0.0 : loads;
    r.remote_dram = remote ? loads : 0.0;
    r.cycles_l3_miss = queries * dram_ns * per_query * machine_.clock_ghz;
    r.cycles_mem_any = r.cycles_l3_miss +
                       queries * (state.llc_ns + state.walk_ns) * per_query * machine_.clock_ghz;
    r.task_clock_us = queries * service_ns * 1e-3;
    r.elapsed_us = r.task_clock_us * slowdown_[c];
    // A preempted thread waits a time slice for every one it runs against its neighbour.
    r.context_switches = (r.elapsed_us - r.task_clock_us) / time_slice_us;
    const double read = state.read_bytes * per_query * queries * 1e-3;
    const double written = state.write_bytes * per_query * queries * 1e-3;
    result.read_gb_per_s[m] += read;
    result.write_gb_per_s[m] += written;
    const auto from = static_cast<std::size_t>(machine_.socket_of_node[a]);
    const auto to = static_cast<std::size_t>(machine_.socket_of_node[m]);
    if (from != to) {
      result.link_gb_per_s[to * sockets + from] += read;
      result.link_gb_per_s[from * sockets + to] += written;
    }
  }

  std::vector<double> response(cores, 0.0);
  for (std::size_t c = 0; c < cores; ++c) {
    const double service_us = service_ns_[c] * 1e-3;
    if (load_.kind == Load::Kind::saturated) {
      response[c] = service_us * load_.outstanding_per_worker;
    } else {
      const double utilisation = std::min(core_rate_[c] * service_us, 1.0 - 1e-9);
      response[c] = std::min(service_us / (1.0 - utilisation),
                             service_us * load_.outstanding_per_worker * machine_.workers());
    }
  }
  result.latency_p50_us = mixture_quantile(core_rate_, response, 0.50);
  result.latency_p99_us = mixture_quantile(core_rate_, response, 0.99);
  return result;
}

}  // namespace pmoss::analytic
