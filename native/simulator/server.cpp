#include "simulator/server.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "simulator/backlog.hpp"
#include "simulator/checks.hpp"
#include "simulator/completions.hpp"
#include "simulator/copies.hpp"
#include "simulator/execution.hpp"
#include "simulator/page_homes.hpp"
#include "simulator/slice_counts.hpp"
#include "workload/arrivals.hpp"
#include "workload/histogram.hpp"
#include "workload/random.hpp"

namespace pmoss::simulator {
namespace {

constexpr double line_bytes = 64.0;
constexpr std::uint32_t none = ~std::uint32_t{0};

struct Core {
  std::size_t first_mate = 0, last_mate = 0;  // the other hardware threads, in a list of all
  double alone_speed = 0, shared_speed = 0;   // work done per ns
  double task_share = 1;                      // the part of elapsed time that it runs
  double speed = 0;                           // while it is busy
  double begin_ns = 0;
  double own_ratio = 1;  // the query's own work / the work charged to it
  std::uint32_t slot = none;
  std::uint32_t head = none, tail = none;  // its queue
  std::uint32_t query = 0;
  int place = 0;  // of the completion to be, in `left_`
  bool busy = false;
};

struct Slot {
  double arrival_ns = 0;
  double ready_ns = 0;  // when a router hands it out
  std::uint32_t query = 0;
  std::uint32_t next = none;
};

}  // namespace

class Server::State {
 public:
  State(Machine machine, Load load, ServerOptions options)
      : machine_(std::move(machine)), load_(load), options_(options) {
    machine_.complete();
    load_.validate();
    check(options_);
    MemorySystem::check(machine_);  // before any trace is recorded for it
    for (int c = 0; c < machine_.cores(); ++c) {
      if (machine_.is_worker[static_cast<std::size_t>(c)] == 0) continue;
      workers_.push_back(static_cast<std::uint32_t>(c));
    }
  }

  void set_instance(std::shared_ptr<const recording::Trace> trace, Interference interference);
  Snapshot run(const Placement& placement, std::uint64_t seed);
  Migration migrate(const Placement& placement, std::span<const Move> moves, double most_gb_per_s,
                    std::uint64_t seed);

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

  void prepare_cores(const Placement& placement);
  void prepare_slots();

  std::uint32_t next_query();
  std::size_t route(std::uint32_t query);
  void offer(std::uint32_t slot);
  void arrive(std::uint32_t slot);
  void start(std::size_t core, std::uint32_t query);
  void start_from_backlog(std::size_t core);
  void complete(std::size_t core);
  double speed_of(const Core& core) const;
  void set_speed(std::size_t core);
  void tell_mates(std::size_t core);
  void begin_measuring();
  void close_epoch(double ns);
  void begin_moving();
  void end_piece(double at_ns);
  double interarrival_ns();
  Snapshot result() const;

  Machine machine_;
  Load load_;
  ServerOptions options_;
  std::vector<std::uint32_t> workers_;
  std::unique_ptr<Execution> execution_;
  const recording::Trace* trace_ = nullptr;  // of the execution

  // One run.
  Placement placement_;
  Random routing_{0};
  PoissonArrivals arrivals_;
  std::vector<std::vector<std::uint32_t>> workers_of_node_;
  std::vector<std::uint32_t> mates_;
  std::vector<Core> state_;
  std::vector<Slot> slots_;
  std::uint32_t free_slots_ = none;
  std::uint32_t first_dispatch_ = none, last_dispatch_ = none;
  std::vector<double> router_free_ns_;
  std::size_t next_router_ = 0;
  Backlog backlog_;
  std::vector<double> left_;  // [core][outstanding]: when the latest queries of a backlog left
  std::size_t cursor_ = 0;
  std::unique_ptr<Completions> completions_;
  double now_ = 0, epoch_begin_ = 0, measured_from_ = 0, next_arrival_ = 0;
  std::size_t completed_ = 0, warmup_ = 0;
  std::vector<SliceCounts> counts_;
  Traffic traffic_before_;
  Histogram responses_;

  // Slices that move in this run.
  std::span<const Move> moves_;
  std::vector<std::int32_t> cores_of_moved_;  // of all slices, from the moves on
  std::unique_ptr<Copies> copies_;
  std::vector<Migration::Piece> pieces_;
  double piece_from_ns_ = 0;
  std::size_t piece_from_ = 0;  // completed queries
};

void Server::State::set_instance(std::shared_ptr<const recording::Trace> trace,
                                 Interference interference) {
  if (!trace) throw std::invalid_argument("no trace");
  check(*trace);
  validate(interference, machine_);
  execution_ = std::make_unique<Execution>(machine_, std::move(trace), std::move(interference));
  trace_ = &execution_->trace();
  copies_ = std::make_unique<Copies>(machine_, trace_->line_sampling);
}

void Server::State::prepare_cores(const Placement& placement) {
  const MemorySystem& memory = execution_->memory();
  const Interference& interference = execution_->co_tenants();
  state_.assign(cores(), Core{});
  mates_.clear();
  for (const std::uint32_t c : workers_) {
    Core& core = state_[c];
    core.first_mate = mates_.size();
    for (const std::uint32_t other : workers_) {
      if (other != c && memory.physical_of(other) == memory.physical_of(c)) {
        mates_.push_back(other);
      }
    }
    core.last_mate = mates_.size();
    const double busy = interference.busy_share.empty() ? 0.0 : interference.busy_share[c];
    const double sibling =
        interference.sibling_busy_share.empty() ? 0.0 : interference.sibling_busy_share[c];
    double faults = 0.0;
    if (options_.numa_balancing && placement.data == DataPlacement::loader) {
      faults = options_.balancing.fault_share(static_cast<double>(workers_.size()));
    }
    core.task_share = 1.0 - busy;
    const double speed = (1.0 - busy) * (1.0 - faults);
    core.alone_speed = speed * (1.0 - sibling * (1.0 - machine_.smt_share));
    core.shared_speed = speed * machine_.smt_share;
  }
}

void Server::State::prepare_slots() {
  std::size_t n = 0;
  if (load_.kind == Load::Kind::closed) {
    n = workers_.size() * static_cast<std::size_t>(load_.outstanding_per_worker);
  } else if (has_arrivals()) {
    n = trace_->size();
  }
  slots_.assign(n, Slot{});
  free_slots_ = n == 0 ? none : 0;
  for (std::size_t i = 0; i + 1 < n; ++i) slots_[i].next = static_cast<std::uint32_t>(i + 1);
  first_dispatch_ = last_dispatch_ = none;
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
  s.next = none;
  if (first_dispatch_ == none) {
    first_dispatch_ = slot;
  } else {
    slots_[last_dispatch_].next = slot;
  }
  last_dispatch_ = slot;
}

void Server::State::arrive(std::uint32_t slot) {
  const std::size_t c = route(slots_[slot].query);
  Core& core = state_[c];
  slots_[slot].next = none;
  if (!core.busy) {
    core.slot = slot;
    start(c, slots_[slot].query);
    return;
  }
  execution_->prefetch(c, slots_[slot].query);
  if (core.head == none) {
    core.head = slot;
  } else {
    slots_[core.tail].next = slot;
  }
  core.tail = slot;
}

void Server::State::start_from_backlog(std::size_t c) {
  const std::uint32_t query = backlog_.next(*trace_, c);
  if (query == Backlog::nothing) return;
  execution_->prefetch(c, backlog_.peek(c));
  start(c, query);
}

double Server::State::speed_of(const Core& core) const {
  for (std::size_t i = core.first_mate; i < core.last_mate; ++i) {
    if (state_[mates_[i]].busy) return core.shared_speed;
  }
  return core.alone_speed;
}

void Server::State::start(std::size_t c, std::uint32_t query) {
  Core& core = state_[c];
  const bool was_busy = core.busy;
  core.busy = true;
  core.query = query;
  core.begin_ns = now_;
  core.speed = speed_of(core);
  const Execution::Work work =
      execution_->begin(c, query, now_, core.speed, counts_[trace_->queries[query].slice]);
  core.own_ratio = work.own_ratio;
  completions_->set(c, now_ + work.ns / core.speed);
  if (!was_busy) tell_mates(c);
}

void Server::State::set_speed(std::size_t c) {
  Core& core = state_[c];
  if (!core.busy) return;
  const double speed = speed_of(core);
  if (speed == core.speed) return;
  completions_->set(c, now_ + (completions_->time(c) - now_) * (core.speed / speed));
  core.speed = speed;
}

void Server::State::tell_mates(std::size_t c) {
  for (std::size_t i = state_[c].first_mate; i < state_[c].last_mate; ++i) set_speed(mates_[i]);
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
    backlog_.served(c);
    // In a queue that is always full, a query comes when the one that many places before it leaves.
    double& came = left_[c * static_cast<std::size_t>(load_.outstanding_per_worker) + core.place];
    core.place = core.place + 1 == load_.outstanding_per_worker ? 0 : core.place + 1;
    responses_.add(static_cast<std::uint64_t>(now_ - came));
    came = now_;
    if (completed_ == warmup_) begin_measuring();
    start_from_backlog(c);
    return;
  }
  const std::uint32_t slot = core.slot;
  responses_.add(static_cast<std::uint64_t>(now_ - slots_[slot].arrival_ns));
  if (completed_ == warmup_) {
    begin_measuring();
    begin_moving();
  }
  core.slot = core.head;
  if (core.slot == none) {
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

void Server::State::begin_measuring() {
  counts_.assign(trace_->slices, SliceCounts{});
  responses_ = Histogram{};
  backlog_.forget_served();
  traffic_before_ = execution_->memory().contention().traffic();
  measured_from_ = now_;
}

void Server::State::begin_moving() {
  if (moves_.empty()) return;
  cores_of_moved_.assign(placement_.cores.begin(), placement_.cores.end());
  for (const Move& move : moves_) {
    const auto slice = static_cast<std::size_t>(move.slice);
    const int source = placement_.nodes[slice];
    const int target = machine_.node_of_core[static_cast<std::size_t>(move.core)];
    cores_of_moved_[slice] = move.core;
    if (source != target) copies_->add(move.slice, source, target, move.bytes);
  }
  placement_.cores = cores_of_moved_;
  piece_from_ns_ = now_;
  piece_from_ = completed_;
}

void Server::State::close_epoch(double ns) {
  if (!copies_->empty()) {
    const double passed = std::min(ns, epoch_begin_ + ns - piece_from_ns_);
    const auto arrived = copies_->advance(passed, execution_->contention());
    for (const Copies::Arrived& copy : arrived) execution_->rehome(copy.slice, copy.node);
    if (!arrived.empty()) end_piece(epoch_begin_ + ns);
  }
  execution_->close_epoch(ns);
}

void Server::State::end_piece(double at_ns) {
  const double ns = at_ns - piece_from_ns_;
  const auto queries = static_cast<double>(completed_ - piece_from_);
  if (ns > 0.0) pieces_.push_back({ns * 1e-9, queries / ns * 1e3});
  piece_from_ns_ = at_ns;
  piece_from_ = completed_;
}

double Server::State::interarrival_ns() {
  if (load_.kind == Load::Kind::saturated) return machine_.dispatch_ns / machine_.routers;
  return arrivals_.next_gap_ns();
}

Snapshot Server::State::run(const Placement& placement, std::uint64_t seed) {
  if (!execution_) throw std::logic_error("no instance: call set_instance() first");
  check(placement, *trace_, machine_);
  workers_of_node_.assign(nodes(), {});
  for (const std::uint32_t core : workers_) {
    workers_of_node_[static_cast<std::size_t>(machine_.node_of_core[core])].push_back(core);
  }
  placement_ = placement;
  routing_ = Random(mix64(seed));
  arrivals_ = PoissonArrivals(load_.offered_mq_per_s, seed);
  prepare_cores(placement);
  execution_->reset(PageHomes(machine_, workers_, placement, options_.numa_balancing,
                              options_.balancing.stay_share));
  if (has_backlog()) {
    backlog_.prepare(*trace_, machine_, placement);
    left_.assign(cores() * static_cast<std::size_t>(load_.outstanding_per_worker), 0.0);
  }
  prepare_slots();
  completions_ = std::make_unique<Completions>(cores());
  cursor_ = 0;
  now_ = epoch_begin_ = 0.0;
  completed_ = 0;
  const std::size_t total = trace_->size();
  warmup_ = static_cast<std::size_t>(options_.warmup_share * static_cast<double>(total));
  begin_measuring();
  copies_->clear();
  if (warmup_ == 0) begin_moving();

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
        first_dispatch_ == none ? Completions::never : slots_[first_dispatch_].ready_ns;
    now_ = std::min({completion, dispatch, next_arrival_});
    for (; now_ >= epoch_begin_ + epoch_ns; epoch_begin_ += epoch_ns) {
      close_epoch(epoch_ns);
    }
    if (now_ == completion) {
      complete(core);
    } else if (now_ == dispatch) {
      const std::uint32_t slot = first_dispatch_;
      first_dispatch_ = slots_[slot].next;
      arrive(slot);
    } else {
      next_arrival_ += interarrival_ns();
      const std::uint32_t slot = free_slots_;
      if (slot == none) continue;  // the system is full: the query is lost
      free_slots_ = slots_[slot].next;
      offer(slot);
    }
  }
  placement_ = {};
  return result();
}

Migration Server::State::migrate(const Placement& placement, std::span<const Move> moves,
                                 double most_gb_per_s, std::uint64_t seed) {
  if (!execution_) throw std::logic_error("no instance: call set_instance() first");
  if (placement.routing != Routing::core || placement.data != DataPlacement::slice ||
      has_backlog()) {
    throw std::invalid_argument(
        "moves: need slices with cores and data of their own, under a closed or an open load");
  }
  check(moves, *trace_, machine_);
  pieces_.clear();
  copies_->limit(most_gb_per_s);
  moves_ = moves;
  Migration result;
  try {
    result.snapshot = run(placement, seed);
  } catch (...) {
    moves_ = {};
    throw;
  }
  moves_ = {};
  end_piece(now_);
  result.pieces = pieces_;
  result.copied_bytes = copies_->copied_bytes();
  result.pending = copies_->size();
  return result;
}

Snapshot Server::State::result() const {
  const auto sockets = static_cast<std::size_t>(machine_.sockets());
  const double lines = trace_->line_sampling;
  const double per_us = 1e3 / (now_ - measured_from_);
  Snapshot result;
  const bool counts_mix = load_.counts_mix && has_backlog();
  result.throughput =
      (counts_mix ? backlog_.served_mix() : static_cast<double>(completed_ - warmup_)) * per_us;
  for (const SliceCounts& n : counts_) {
    result.slices.push_back(n.rates(per_us, *trace_, machine_));
  }
  const Traffic& traffic = execution_->memory().contention().traffic();
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
  execution_->memory().contention().route(flow, result.link_gb_per_s);
  result.latency_p50_us = responses_.quantile(0.50) * 1e-3;
  result.latency_p99_us = responses_.quantile(0.99) * 1e-3;
  return result;
}

Server::Server(Machine machine, Load load, ServerOptions options)
    : state_(std::make_unique<State>(std::move(machine), load, options)) {}
Server::~Server() = default;
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;

void Server::set_instance(std::shared_ptr<const recording::Trace> trace,
                          Interference interference) {
  state_->set_instance(std::move(trace), std::move(interference));
}

Snapshot Server::run(const Placement& placement, std::uint64_t seed) {
  return state_->run(placement, seed);
}

Migration Server::migrate(const Placement& placement, std::span<const Move> moves,
                          double most_gb_per_s, std::uint64_t seed) {
  return state_->migrate(placement, moves, most_gb_per_s, seed);
}

}  // namespace pmoss::simulator
