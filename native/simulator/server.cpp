#include "simulator/server.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "simulator/backlog.hpp"
#include "simulator/completions.hpp"
#include "simulator/memory_system.hpp"
#include "simulator/page_homes.hpp"
#include "simulator/slice_counts.hpp"
#include "simulator/tlb.hpp"
#include "workload/histogram.hpp"
#include "workload/portable_math.hpp"
#include "workload/random.hpp"

namespace pmoss::simulator {
namespace {

constexpr double line_bytes = 64.0;
// Queries over which the mean wait beyond the L2 is formed where lines are sampled.
constexpr double mean_over_queries = 512.0;
// A lock that seems to be held for longer than this was given back before the clock wrapped.
constexpr std::uint32_t longest_hold_ns = 1U << 20;
constexpr std::uint32_t nobody = ~std::uint32_t{0};

template <typename T>
[[noreturn]] void refuse(const std::string& name, const T& value, const std::string& right) {
  throw std::invalid_argument(name + " = " + std::to_string(value) + ": must be " + right);
}

void require_share(const std::string& name, double value) {
  if (!(value >= 0.0 && value < 1.0)) refuse(name, value, "at least 0 and below 1");
}

void require_shape(const char* name, const std::vector<double>& values, std::size_t right) {
  if (!values.empty() && values.size() != right) {
    refuse(std::string("length of ") + name, values.size(), "0 or " + std::to_string(right));
  }
  for (const double value : values) {
    if (!(value >= 0.0) || !std::isfinite(value)) refuse(name, value, "finite and at least 0");
  }
}

// The waits of one core's queries that were recorded, with the weight of what was not: what the
// mean is made of. Old ones fade.
struct MeanWait {
  double touches = 0;  // time that the touches of the same queries would take at 1 ns each
  double pages = 0;
  double line_ns = 0;  // all but memory under load
  double page_ns = 0;
  double queries = 0;
  double per_touch = 0, per_page = 0;  // the result
};

struct Core {
  std::size_t first_mate = 0, last_mate = 0;  // the other hardware threads, in a list of all
  double alone_speed = 0, shared_speed = 0;   // work done per ns
  double task_share = 1;                      // the part of elapsed time that it runs
  double speed = 0;                           // while it is busy
  double begin_ns = 0;
  double own_ratio = 1;  // the query's own work / the work charged to it
  std::uint32_t slot = nobody;
  std::uint32_t head = nobody, tail = nobody;  // its queue
  std::uint32_t query = 0;
  bool busy = false;
};

struct Slot {
  double arrival_ns = 0;
  double ready_ns = 0;  // when a router hands it out
  std::uint32_t query = 0;
  std::uint32_t next = nobody;
};

}  // namespace

void ServerOptions::validate() const {
  require_share("warmup_share", warmup_share);
  require_share("balancing_stay_share", balancing_stay_share);
  if (!(epoch_us > 0.0) || !std::isfinite(epoch_us)) refuse("epoch_us", epoch_us, "positive");
  if (!(hint_faults_per_us >= 0.0)) refuse("hint_faults_per_us", hint_faults_per_us, "at least 0");
  if (!(hint_fault_ns >= 0.0)) refuse("hint_fault_ns", hint_fault_ns, "at least 0");
}

class Server::State {
 public:
  State(Machine machine, Load load, ServerOptions options)
      : machine_(std::move(machine)), load_(load), options_(options) {
    machine_.complete();
    load_.validate();
    options_.validate();
    for (int c = 0; c < machine_.cores(); ++c) {
      if (machine_.is_worker[static_cast<std::size_t>(c)] == 0) continue;
      workers_.push_back(static_cast<std::uint32_t>(c));
    }
    // Refuses what the directory cannot hold, before any trace is recorded for it.
    memory_ = std::make_unique<MemorySystem>(machine_, 1024);
  }

  void set_instance(std::shared_ptr<const Trace> trace, Neighbours neighbours);
  Snapshot run(const Placement& placement, std::uint64_t seed);

 private:
  std::size_t cores() const { return machine_.node_of_core.size(); }
  std::size_t nodes() const { return machine_.socket_of_node.size(); }
  bool routers_limit() const {
    return options_.dispatch == ServerOptions::Dispatch::modelled && machine_.dispatch_ns > 0.0;
  }
  bool has_backlog() const { return load_.kind == Load::Kind::saturated && !routers_limit(); }
  bool has_arrivals() const {
    return load_.kind == Load::Kind::open ||
           (load_.kind == Load::Kind::saturated && routers_limit());
  }

  void check(const Placement& placement) const;
  void prepare_cores(const Placement& placement);
  void prepare_homes(const Placement& placement);
  void prepare_slots();

  std::uint32_t next_query();
  std::size_t route(std::uint32_t query);
  void offer(std::uint32_t slot);
  void arrive(std::uint32_t slot);
  void start(std::size_t core, std::uint32_t query);
  void start_from_backlog(std::size_t core);
  void complete(std::size_t core);
  double work_of(std::size_t core, std::uint32_t query);
  void set_speed(std::size_t core);
  void tell_mates(std::size_t core);
  void close_epoch();
  void begin_measuring();
  double interarrival_ns();
  Snapshot result() const;

  Machine machine_;
  Load load_;
  ServerOptions options_;
  std::vector<std::uint32_t> workers_;
  std::shared_ptr<const Trace> trace_;
  Neighbours neighbours_;
  std::unique_ptr<MemorySystem> memory_;
  std::unique_ptr<Tlb> tlb_;
  std::vector<std::uint32_t> translated_;  // per recorded page: the machine's page it is part of

  // One run.
  Placement placement_;
  Random routing_{0}, arrivals_{0};
  std::vector<std::vector<std::uint32_t>> workers_of_node_;
  std::vector<std::uint32_t> mates_;
  std::vector<Core> state_;
  std::vector<MeanWait> mean_;     // per core
  std::vector<double> mean_dram_;  // [core][memory's node]: waits at idle latency
  std::vector<std::uint8_t> home_of_line_;
  std::vector<Slot> slots_;
  std::uint32_t free_slots_ = nobody;
  std::uint32_t first_dispatch_ = nobody, last_dispatch_ = nobody;
  std::vector<double> router_free_ns_;
  std::size_t next_router_ = 0;
  Backlog backlog_;
  std::size_t cursor_ = 0;
  std::vector<double> foreign_;  // per domain: neighbours' lines not yet brought in
  std::unique_ptr<Completions> completions_;
  double now_ = 0, epoch_begin_ = 0, measured_from_ = 0, next_arrival_ = 0;
  std::size_t completed_ = 0, warmup_ = 0;
  std::vector<SliceCounts> counts_;
  Traffic traffic_before_;
  Histogram responses_;
};

void Server::State::set_instance(std::shared_ptr<const Trace> trace, Neighbours neighbours) {
  if (!trace || trace->size() == 0) refuse("queries of the trace", 0, "at least 1");
  if (trace->size() >= nobody) refuse("queries of the trace", trace->size(), "below 2^32 - 1");
  if (trace->slices == 0) refuse("slices of the trace", 0, "at least 1");
  if (trace->line_sampling == 0) refuse("line_sampling", 0, "at least 1");
  if (trace->page_sampling == 0) refuse("page_sampling", 0, "at least 1");
  for (std::size_t i = 0; i < trace->size(); ++i) {
    if (trace->queries[i].slice >= trace->slices) {
      refuse("slice of query " + std::to_string(i), trace->queries[i].slice,
             "below " + std::to_string(trace->slices));
    }
  }
  for (const Touch& touch : trace->touches) {
    if (touch.line() >= trace->lines()) {
      refuse("a touched line", touch.line(), "below " + std::to_string(trace->lines()));
    }
  }
  for (const std::uint32_t page : trace->page_touches) {
    if (page >= trace->pages()) {
      refuse("a touched page", page, "below " + std::to_string(trace->pages()));
    }
  }
  const auto sockets = static_cast<std::size_t>(machine_.sockets());
  require_shape("busy_share", neighbours.busy_share, cores());
  require_shape("sibling_busy_share", neighbours.sibling_busy_share, cores());
  require_shape("llc_lines_per_ns", neighbours.llc_lines_per_ns,
                static_cast<std::size_t>(machine_.llc_domains()));
  require_shape("dram_gb_per_s", neighbours.dram_gb_per_s, nodes());
  require_shape("link_gb_per_s", neighbours.link_gb_per_s, sockets * sockets);
  for (const double share : neighbours.busy_share) require_share("busy_share", share);
  for (const double share : neighbours.sibling_busy_share) {
    if (share > 1.0) refuse("sibling_busy_share", share, "at most 1");
  }
  memory_ = std::make_unique<MemorySystem>(machine_, trace->line_sampling);
  tlb_ = std::make_unique<Tlb>(machine_, memory_->physical_cores(), trace->page_sampling);
  translated_ = trace->address_page_of_page;
  for (std::uint32_t& page : translated_) page /= Tlb::base_pages(machine_);
  trace_ = std::move(trace);
  neighbours_ = std::move(neighbours);
}

void Server::State::check(const Placement& placement) const {
  if (placement.nodes.size() != trace_->slices) {
    refuse("length of nodes", placement.nodes.size(), std::to_string(trace_->slices));
  }
  for (const std::int32_t node : placement.nodes) {
    if (node < 0 || node >= machine_.nodes()) {
      refuse("node of a slice", node, "0 to " + std::to_string(machine_.nodes() - 1));
    }
  }
  if (placement.routing == Routing::node) {
    for (const std::int32_t node : placement.nodes) {
      if (workers_of_node_[static_cast<std::size_t>(node)].empty()) {
        refuse("node of a slice", node, "a node with workers");
      }
    }
  }
  if (placement.routing != Routing::core) return;
  if (placement.cores.size() != trace_->slices) {
    refuse("length of cores", placement.cores.size(), std::to_string(trace_->slices));
  }
  for (const std::int32_t core : placement.cores) {
    if (core < 0 || core >= machine_.cores() ||
        machine_.is_worker[static_cast<std::size_t>(core)] == 0) {
      refuse("core of a slice", core, "a worker core of the machine");
    }
  }
}

void Server::State::prepare_cores(const Placement& placement) {
  state_.assign(cores(), Core{});
  mates_.clear();
  for (const std::uint32_t c : workers_) {
    Core& core = state_[c];
    core.first_mate = mates_.size();
    for (const std::uint32_t other : workers_) {
      if (other != c && memory_->physical_of(other) == memory_->physical_of(c)) {
        mates_.push_back(other);
      }
    }
    core.last_mate = mates_.size();
    const double busy = neighbours_.busy_share.empty() ? 0.0 : neighbours_.busy_share[c];
    const double sibling =
        neighbours_.sibling_busy_share.empty() ? 0.0 : neighbours_.sibling_busy_share[c];
    double faults = 0.0;
    if (options_.numa_balancing && placement.data == DataPlacement::first_touch) {
      faults = std::min(0.5, options_.hint_faults_per_us * options_.hint_fault_ns * 1e-3 /
                                 static_cast<double>(workers_.size()));
    }
    core.task_share = 1.0 - busy;
    const double speed = (1.0 - busy) * (1.0 - faults);
    core.alone_speed = speed * (1.0 - sibling * (1.0 - machine_.smt_share));
    core.shared_speed = speed * machine_.smt_share;
  }
  mean_.assign(cores(), MeanWait{});
  mean_dram_.assign(cores() * nodes(), 0.0);
}

void Server::State::prepare_homes(const Placement& placement) {
  const PageHomes homes(machine_, workers_, placement, options_.numa_balancing,
                        options_.balancing_stay_share);
  home_of_line_.resize(trace_->lines());
  for (std::size_t line = 0; line < trace_->lines(); ++line) {
    home_of_line_[line] = homes.of(trace_->address_page_of_line[line], trace_->slice_of_line[line]);
  }
  memory_->reset(home_of_line_, neighbours_);
  tlb_->clear();
  foreign_.assign(static_cast<std::size_t>(machine_.llc_domains()), 0.0);
}

void Server::State::prepare_slots() {
  std::size_t n = 0;
  if (load_.kind == Load::Kind::closed) {
    n = workers_.size() * static_cast<std::size_t>(load_.outstanding_per_worker);
  } else if (has_arrivals()) {
    n = trace_->size();
  }
  slots_.assign(n, Slot{});
  free_slots_ = n == 0 ? nobody : 0;
  for (std::size_t i = 0; i + 1 < n; ++i) slots_[i].next = static_cast<std::uint32_t>(i + 1);
  first_dispatch_ = last_dispatch_ = nobody;
  router_free_ns_.assign(static_cast<std::size_t>(machine_.routers), 0.0);
  next_router_ = 0;
}

std::uint32_t Server::State::next_query() {
  const auto query = static_cast<std::uint32_t>(cursor_);
  cursor_ = cursor_ + 1 == trace_->size() ? 0 : cursor_ + 1;
  return query;
}

std::size_t Server::State::route(std::uint32_t query) {
  const std::uint16_t slice = trace_->queries[query].slice;
  if (placement_.routing == Routing::core) {
    return static_cast<std::size_t>(placement_.cores[slice]);
  }
  const std::vector<std::uint32_t>& choice =
      placement_.routing == Routing::node
          ? workers_of_node_[static_cast<std::size_t>(placement_.nodes[slice])]
          : workers_;
  return choice[routing_.below(choice.size())];
}

// A new query takes the slot and goes to its worker, past a router where that is modelled. Routers
// take turns and are equally fast, so that queries leave them in the order in which they came.
void Server::State::offer(std::uint32_t slot) {
  Slot& s = slots_[slot];
  s.query = next_query();
  s.arrival_ns = now_;
  if (!routers_limit()) return arrive(slot);
  double& free_ns = router_free_ns_[next_router_];
  next_router_ = next_router_ + 1 == router_free_ns_.size() ? 0 : next_router_ + 1;
  s.ready_ns = free_ns = std::max(now_, free_ns) + machine_.dispatch_ns;
  s.next = nobody;
  if (first_dispatch_ == nobody) {
    first_dispatch_ = slot;
  } else {
    slots_[last_dispatch_].next = slot;
  }
  last_dispatch_ = slot;
}

void Server::State::arrive(std::uint32_t slot) {
  const std::size_t c = route(slots_[slot].query);
  Core& core = state_[c];
  slots_[slot].next = nobody;
  if (!core.busy) {
    core.slot = slot;
    start(c, slots_[slot].query);
  } else if (core.head == nobody) {
    core.head = core.tail = slot;
  } else {
    slots_[core.tail].next = slot;
    core.tail = slot;
  }
}

void Server::State::start_from_backlog(std::size_t c) {
  const std::uint32_t query = backlog_.next(*trace_, c);
  if (query != Backlog::nothing) start(c, query);
}

void Server::State::start(std::size_t c, std::uint32_t query) {
  Core& core = state_[c];
  const bool was_busy = core.busy;
  core.busy = true;
  core.query = query;
  core.begin_ns = now_;
  bool mate_is_busy = false;
  for (std::size_t i = core.first_mate; i < core.last_mate; ++i) {
    mate_is_busy = mate_is_busy || state_[mates_[i]].busy;
  }
  core.speed = mate_is_busy ? core.shared_speed : core.alone_speed;
  completions_->set(c, now_ + work_of(c, query) / core.speed);
  if (!was_busy) tell_mates(c);
}

void Server::State::set_speed(std::size_t c) {
  Core& core = state_[c];
  if (!core.busy) return;
  bool mate_is_busy = false;
  for (std::size_t i = core.first_mate; i < core.last_mate; ++i) {
    mate_is_busy = mate_is_busy || state_[mates_[i]].busy;
  }
  const double speed = mate_is_busy ? core.shared_speed : core.alone_speed;
  if (speed == core.speed) return;
  completions_->set(c, now_ + (completions_->time(c) - now_) * (core.speed / speed));
  core.speed = speed;
}

void Server::State::tell_mates(std::size_t c) {
  for (std::size_t i = state_[c].first_mate; i < state_[c].last_mate; ++i) set_speed(mates_[i]);
}

double Server::State::work_of(std::size_t c, std::uint32_t query_index) {
  const TracedQuery& query = trace_->queries[query_index];
  const std::span<const Touch> touches = trace_->touches_of(query_index);
  SliceCounts& counts = counts_[query.slice];
  MeanWait& mean = mean_[c];
  const double cpu_ns =
      (query.instructions / machine_.instructions_per_cycle +
       query.branch_misses * machine_.branch_miss_cycles + machine_.query_overhead_cycles) /
      machine_.clock_ghz;
  const double exposure =
      query.dependent / machine_.mlp_dependent + query.streaming / machine_.mlp_streaming;
  const double exact_ns = cpu_ns + exposure * machine_.l2_ns;
  const bool every_line = trace_->line_sampling == 1;
  const bool every_page = trace_->page_sampling == 1;
  const double mean_line_ns = every_line ? 0.0 : mean.per_touch * exposure;
  const auto core_node = static_cast<std::size_t>(machine_.node_of_core[c]);
  const auto now = [this](double ns) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(now_ + ns));
  };

  double line_ns = 0.0, dram_ns = 0.0;  // waits of this query for recorded lines
  std::uint32_t locked[8];
  std::size_t locks = 0, n = 0;
  for (const Touch touch : touches) {
    const std::uint32_t line = touch.line();
    LineState& state = memory_->state(line);
    ++n;
    const double fraction = (static_cast<double>(n) - 0.5) / static_cast<double>(touches.size());
    const std::uint32_t held_ns = state.locked_ns - now((exact_ns + mean_line_ns) * fraction +
                                                        (every_line ? line_ns + dram_ns : 0.0));
    if (held_ns - 1 < longest_hold_ns) line_ns += held_ns + cpu_ns;  // waits, and begins again
    const Served served = touch.writes() ? memory_->write(c, line) : memory_->read(c, line);
    if (touch.locks() && locks < std::size(locked)) locked[locks++] = line;
    if (served.by == Served::By::l2 && served.ns == 0.0) continue;
    const double mlp = touch.locks()     ? 1.0
                       : touch.streams() ? machine_.mlp_streaming
                                         : machine_.mlp_dependent;
    line_ns += served.ns / mlp;
    dram_ns += served.dram_ns / mlp;
    const bool from_memory = served.by == Served::By::memory;
    if (from_memory) {
      const bool remote = state.home != core_node;
      counts.local_loads += remote ? 0 : 1;
      counts.remote_loads += remote ? 1 : 0;
      if (touch.writes()) {
        counts.writes_from_remote_memory += remote ? 1 : 0;
      } else {
        ++counts.reads_from_memory;
        counts.reads_from_remote_memory += remote ? 1 : 0;
      }
      if (!every_line && served.dram_ns > 0.0) {
        mean_dram_[c * nodes() + state.home] +=
            machine_.dram_latency(static_cast<int>(core_node), state.home) / mlp;
      }
    }
    if (from_memory || served.by == Served::By::modified_elsewhere) {
      ++(touch.writes() ? counts.writes_missed : counts.reads_missed);
      counts.beyond_domain_ns += (served.ns + served.dram_ns) / mlp;
    } else {
      counts.domain_ns += served.ns / mlp;
    }
  }

  double page_ns = 0.0;
  const std::size_t physical = memory_->physical_of(c);
  for (const std::uint32_t page : trace_->pages_of(query_index)) {
    const Tlb::Found found = tlb_->touch(physical, translated_[page]);
    if (found == Tlb::Found::first_level) continue;
    page_ns += found == Tlb::Found::walk ? machine_.page_walk_ns : machine_.tlb_ns;
    counts.walks += found == Tlb::Found::walk ? 1 : 0;
  }

  mean.queries += 1.0;
  if (!every_line) {
    mean.touches += exposure;
    mean.line_ns += line_ns;
  }
  if (!every_page) {
    mean.pages += query.pages;
    mean.page_ns += page_ns;
  }
  const double own =
      exact_ns + trace_->line_sampling * (line_ns + dram_ns) + trace_->page_sampling * page_ns;
  const double charged = exact_ns + (every_line ? line_ns + dram_ns : mean_line_ns) +
                         (every_page ? page_ns : mean.per_page * query.pages);
  const double work = std::max(charged, 1e-3);
  state_[c].own_ratio = own / work;

  const std::uint32_t until = now(work / state_[c].speed);
  for (std::size_t i = 0; i < locks; ++i) memory_->state(locked[i]).locked_ns = until;

  counts.instructions += query.instructions;
  counts.branch_misses += query.branch_misses;
  counts.touches += std::uint64_t{query.dependent} + query.streaming;
  counts.walk_ns += page_ns;
  return work;
}

void Server::State::complete(std::size_t c) {
  Core& core = state_[c];
  SliceCounts& counts = counts_[trace_->queries[core.query].slice];
  const double elapsed = now_ - core.begin_ns;
  counts.elapsed_ns += elapsed * core.own_ratio;
  counts.task_ns += elapsed * core.own_ratio * core.task_share;
  ++counts.queries;
  ++completed_;
  if (has_backlog()) {
    responses_.add(static_cast<std::uint64_t>(elapsed * load_.outstanding_per_worker));
    if (completed_ == warmup_) begin_measuring();
    start_from_backlog(c);
    return;
  }
  const std::uint32_t slot = core.slot;
  responses_.add(static_cast<std::uint64_t>(now_ - slots_[slot].arrival_ns));
  if (completed_ == warmup_) begin_measuring();
  core.slot = core.head;
  if (core.slot == nobody) {
    core.busy = false;
    completions_->set(c, Completions::never);
    tell_mates(c);
  } else {
    core.head = slots_[core.slot].next;
    start(c, slots_[core.slot].query);
  }
  if (load_.kind == Load::Kind::closed) {
    offer(slot);
  } else {
    slots_[slot].next = free_slots_;
    free_slots_ = slot;
  }
}

void Server::State::close_epoch() {
  const double ns = options_.epoch_us * 1e3;
  epoch_begin_ += ns;
  Contention& contention = memory_->contention();
  contention.close_epoch(ns, line_bytes * trace_->line_sampling);
  for (std::size_t domain = 0; domain < neighbours_.llc_lines_per_ns.size(); ++domain) {
    foreign_[domain] += neighbours_.llc_lines_per_ns[domain] * ns / trace_->line_sampling;
    const auto whole = static_cast<std::uint64_t>(foreign_[domain]);
    foreign_[domain] -= static_cast<double>(whole);
    memory_->pollute(domain, whole);
  }
  for (const std::uint32_t c : workers_) {
    MeanWait& mean = mean_[c];
    const auto node = static_cast<std::size_t>(machine_.node_of_core[c]);
    double line_ns = mean.line_ns;
    for (std::size_t home = 0; home < nodes(); ++home) {
      line_ns += mean_dram_[c * nodes() + home] * contention.multiplier(node, home);
    }
    if (mean.touches > 0.0) mean.per_touch = trace_->line_sampling * line_ns / mean.touches;
    if (mean.pages > 0.0) mean.per_page = trace_->page_sampling * mean.page_ns / mean.pages;
    if (mean.queries <= mean_over_queries) continue;
    const double keep = mean_over_queries / mean.queries;
    for (double* sum : {&mean.touches, &mean.pages, &mean.line_ns, &mean.page_ns, &mean.queries}) {
      *sum *= keep;
    }
    for (std::size_t home = 0; home < nodes(); ++home) mean_dram_[c * nodes() + home] *= keep;
  }
}

void Server::State::begin_measuring() {
  counts_.assign(trace_->slices, SliceCounts{});
  responses_ = Histogram{};
  traffic_before_ = memory_->contention().traffic();
  measured_from_ = now_;
}

double Server::State::interarrival_ns() {
  if (load_.kind == Load::Kind::saturated) return machine_.dispatch_ns / machine_.routers;
  return -portable::log(1.0 - arrivals_.uniform()) * 1e3 / load_.offered_mq_per_s;
}

Snapshot Server::State::run(const Placement& placement, std::uint64_t seed) {
  if (!trace_) throw std::logic_error("no instance: call set_instance() first");
  workers_of_node_.assign(nodes(), {});
  for (const std::uint32_t core : workers_) {
    workers_of_node_[static_cast<std::size_t>(machine_.node_of_core[core])].push_back(core);
  }
  check(placement);
  placement_ = placement;
  routing_ = Random(mix64(seed));
  arrivals_ = Random(mix64(seed) + 1);
  prepare_cores(placement);
  prepare_homes(placement);
  if (has_backlog()) backlog_.prepare(*trace_, machine_, placement);
  prepare_slots();
  completions_ = std::make_unique<Completions>(cores());
  cursor_ = 0;
  now_ = epoch_begin_ = 0.0;
  completed_ = 0;
  const std::size_t total = trace_->size();
  warmup_ = static_cast<std::size_t>(options_.warmup_share * static_cast<double>(total));
  begin_measuring();

  if (has_backlog()) {
    for (const std::uint32_t core : workers_) start_from_backlog(core);
  } else if (load_.kind == Load::Kind::closed) {
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) offer(slot);
  }
  next_arrival_ = has_arrivals() ? interarrival_ns() : Completions::never;
  const double epoch_ns = options_.epoch_us * 1e3;
  while (completed_ < total) {
    const std::size_t core = completions_->next();
    const double completion = completions_->time(core);
    const double dispatch =
        first_dispatch_ == nobody ? Completions::never : slots_[first_dispatch_].ready_ns;
    now_ = std::min({completion, dispatch, next_arrival_});
    while (now_ >= epoch_begin_ + epoch_ns) close_epoch();
    if (now_ == completion) {
      complete(core);
    } else if (now_ == dispatch) {
      const std::uint32_t slot = first_dispatch_;
      first_dispatch_ = slots_[slot].next;
      arrive(slot);
    } else {
      next_arrival_ += interarrival_ns();
      const std::uint32_t slot = free_slots_;
      if (slot == nobody) continue;  // the system is full: the query is lost
      free_slots_ = slots_[slot].next;
      offer(slot);
    }
  }
  placement_ = {};
  return result();
}

Snapshot Server::State::result() const {
  const auto sockets = static_cast<std::size_t>(machine_.sockets());
  const double lines = trace_->line_sampling;
  const double per_us = 1e3 / (now_ - measured_from_);
  Snapshot result;
  result.throughput = static_cast<double>(completed_ - warmup_) * per_us;
  for (const SliceCounts& n : counts_) {
    result.slices.push_back(n.rates(per_us, *trace_, machine_));
  }
  const Traffic& traffic = memory_->contention().traffic();
  const double gb_per_s = lines * line_bytes * per_us * 1e-3;
  for (std::size_t node = 0; node < nodes(); ++node) {
    result.read_gb_per_s.push_back(
        static_cast<double>(traffic.read[node] - traffic_before_.read[node]) * gb_per_s);
    result.write_gb_per_s.push_back(
        static_cast<double>(traffic.written[node] - traffic_before_.written[node]) * gb_per_s);
  }
  std::vector<double> flow(sockets * sockets);
  for (std::size_t i = 0; i < flow.size(); ++i) {
    flow[i] = static_cast<double>(traffic.flow[i] - traffic_before_.flow[i]) * gb_per_s;
  }
  memory_->contention().route(flow, result.link_gb_per_s);
  result.latency_p50_us = responses_.quantile(0.50) * 1e-3;
  result.latency_p99_us = responses_.quantile(0.99) * 1e-3;
  return result;
}

Server::Server(Machine machine, Load load, ServerOptions options)
    : state_(std::make_unique<State>(std::move(machine), load, options)) {}
Server::~Server() = default;
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;

void Server::set_instance(std::shared_ptr<const Trace> trace, Neighbours neighbours) {
  state_->set_instance(std::move(trace), std::move(neighbours));
}

Snapshot Server::run(const Placement& placement, std::uint64_t seed) {
  return state_->run(placement, seed);
}

}  // namespace pmoss::simulator
