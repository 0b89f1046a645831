#include "runtime/runner.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "numa/affinity.hpp"
#include "numa/available_memory.hpp"
#include "numa/topology.hpp"
#include "runtime/clock.hpp"
#include "runtime/control.hpp"
#include "runtime/router.hpp"
#include "runtime/served_btree.hpp"
#include "runtime/served_rtree.hpp"
#include "runtime/worker.hpp"

namespace pmoss::runtime {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

std::string text(double value) {
  std::array<char, 32> digits;  // the shortest form of any double has at most 24
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return std::string(digits.data(), end);
}
std::string text(std::uint32_t value) { return std::to_string(value); }

template <typename Value>
[[noreturn]] void refuse(const char* name, Value value, const std::string& right) {
  refuse(std::string(name) + " is " + text(value) + "; it must " + right);
}

void require_distinct(const std::vector<int>& worker_cpus) {
  std::set<int> seen;
  for (const int cpu : worker_cpus) {
    if (!seen.insert(cpu).second) {
      refuse("worker_cpus names CPU " + std::to_string(cpu) +
             " twice; it must name each CPU at most once");
    }
  }
}

// Only one load() or measure() at a time: both would drive the same index and the same records.
class Exclusive {
 public:
  explicit Exclusive(std::atomic<bool>& busy) : busy_(busy) {
    if (busy_.exchange(true)) throw RunnerError("the runner is already loading or measuring");
  }
  ~Exclusive() { busy_.store(false); }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  std::atomic<bool>& busy_;
};

// Threads that are told to leave, and joined, whatever happens to the caller.
class Crew {
 public:
  explicit Crew(Control& control) : control_(control) {}
  ~Crew() {
    control_.enter(Phase::abort);
    threads_.clear();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// `name` explains an exception that leaves `body`.
  template <typename Body>
  void start(std::string name, Body body) {
    threads_.emplace_back([this, name = std::move(name), body = std::move(body)] {
      std::exception_ptr error;
      try {
        try {
          body();
        } catch (const std::exception& cause) {
          std::throw_with_nested(RunnerError(name + ": " + cause.what()));
        }
      } catch (...) {
        error = std::current_exception();
      }
      control_.finish(std::move(error));
    });
  }
  std::size_t size() const noexcept { return threads_.size(); }
  void join() { threads_.clear(); }

 private:
  Control& control_;
  std::vector<std::jthread> threads_;
};

void check(Control::Wait wait, Control& control) {
  switch (wait) {
    case Control::Wait::done:
      return;
    case Control::Wait::failed:
      std::rethrow_exception(control.error());
    case Control::Wait::cancelled:
      throw Cancelled("cancelled");
  }
}

std::string role(const char* kind, std::size_t number, int cpu) {
  return std::string(kind) + " " + std::to_string(number) + " on CPU " + std::to_string(cpu);
}

void require_allowed(const std::vector<int>& cpus, const std::set<int>& allowed,
                     const char* role_name) {
  for (const int cpu : cpus) {
    if (!allowed.contains(cpu)) {
      refuse(std::string(role_name) + ": CPU " + std::to_string(cpu) +
             " is not one that this process may use");
    }
  }
}

bool needs_nodes(const Schedule& schedule) {
  return schedule.routing == Routing::node || schedule.data == DataPlacement::slice ||
         schedule.data == DataPlacement::first_touch;
}

void validate_schedule(const Schedule& schedule, std::uint32_t slices, const std::set<int>& workers,
                       const std::map<int, int>& node_of) {
  if (schedule.routing == Routing::core) {
    if (schedule.cores.size() != slices) {
      refuse("cores has " + std::to_string(schedule.cores.size()) + " entries for " +
             std::to_string(slices) + " slices");
    }
    for (std::size_t slice = 0; slice < slices; ++slice) {
      if (!workers.contains(schedule.cores[slice])) {
        refuse("slice " + std::to_string(slice) + " is on CPU " +
               std::to_string(schedule.cores[slice]) + ", which has no worker");
      }
    }
  }
  if (!needs_nodes(schedule)) return;
  if (schedule.nodes.size() != slices) {
    refuse("nodes has " + std::to_string(schedule.nodes.size()) + " entries for " +
           std::to_string(slices) + " slices");
  }
  const std::vector<int> memory = numa::memory_nodes();
  std::set<int> with_workers;
  for (const int cpu : workers) with_workers.insert(node_of.at(cpu));
  for (std::size_t slice = 0; slice < slices; ++slice) {
    const int node = schedule.nodes[slice];
    if (schedule.data != DataPlacement::keep &&
        !std::binary_search(memory.begin(), memory.end(), node)) {
      refuse("slice " + std::to_string(slice) + " has its data on node " + std::to_string(node) +
             ", which has no memory that this process may use");
    }
    if (schedule.routing == Routing::node && !with_workers.contains(node)) {
      refuse("slice " + std::to_string(slice) + " is routed to the workers of node " +
             std::to_string(node) + ", which has none");
    }
  }
}

// The workers that may run each slice's queries.
Routes routes_for(const Schedule& schedule, std::uint32_t slices,
                  const std::vector<int>& worker_cpus, const std::map<int, int>& node_of) {
  Routes routes;
  routes.first.reserve(slices + 1);
  routes.first.push_back(0);
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    for (std::uint32_t worker = 0; worker < worker_cpus.size(); ++worker) {
      const int cpu = worker_cpus[worker];
      const bool serves =
          schedule.routing == Routing::any ||
          (schedule.routing == Routing::node ? node_of.at(cpu) == schedule.nodes[slice]
                                             : cpu == schedule.cores[slice]);
      if (serves) routes.workers.push_back(worker);
    }
    routes.first.push_back(static_cast<std::uint32_t>(routes.workers.size()));
  }
  return routes;
}

std::map<int, int> nodes_of_cpus() {
  std::map<int, int> node_of;
  for (const numa::Cpu& cpu : numa::read_topology().cpus) node_of[cpu.id] = cpu.node;
  return node_of;
}

// Takes schedules in their turn and moves data: the enforcer's part of the stitcher's work.
class Enforcement {
 public:
  Enforcement(Enforcer enforcer, RouteBoard& board, const MeasureOptions& options,
              std::uint32_t slices, const std::map<int, int>& node_of)
      : enforcer_(std::move(enforcer)),
        board_(board),
        options_(options),
        slices_(slices),
        node_of_(node_of) {
    enforcer_.want(options.schedule);
    in_place_.store(enforcer_.in_place());
  }

  bool in_place() const noexcept { return in_place_.load(std::memory_order_acquire); }
  std::uint64_t schedules() const noexcept { return next_; }
  const MigrationReport& report() const noexcept { return enforcer_.report(); }

  /// False if there was nothing to move.
  bool step(Phase phase) {
    if (phase == Phase::measuring) {
      if (!begin_) begin_ = Time::now();
      take_change(std::chrono::duration<double>(Time::now() - *begin_).count());
    }
    const bool moved = enforcer_.step();
    in_place_.store(enforcer_.in_place(), std::memory_order_release);
    return moved;
  }

 private:
  using Time = std::chrono::steady_clock;

  void take_change(double seconds) {
    if (next_ == options_.changes.size()) return;
    const ScheduleChange& change = options_.changes[next_];
    if (seconds < change.after_seconds) return;
    board_.publish(routes_for(change.schedule, slices_, options_.worker_cpus, node_of_));
    enforcer_.want(change.schedule);
    ++next_;
  }

  Enforcer enforcer_;
  RouteBoard& board_;
  const MeasureOptions& options_;
  std::uint32_t slices_;
  const std::map<int, int>& node_of_;
  std::optional<Time::time_point> begin_;
  std::size_t next_ = 0;
  std::atomic<bool> in_place_{false};
};

// The stitcher's thread, which is also the enforcer's if there is something to enforce.
void run_stitcher(const Control& control, Stitcher& stitcher, Enforcement* enforcement,
                  MigrationPace pace) {
  for (Phase phase; (phase = control.phase()) < Phase::drain;) {
    stitcher.stitch();
    if (enforcement == nullptr) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else if (!enforcement->step(phase) || pace == MigrationPace::lazy) {
      // A lazy move leaves the machine to the queries for longer than it takes it.
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
}

// Where the sweepers and the stitcher run; -1 is anywhere.
struct SweeperCpus {
  std::vector<int> of_node;  ///< [nodes with workers]
  int offcore = -1;
  int stitcher = -1;
};

SweeperCpus choose_sweepers(const MeasureOptions& options, const std::vector<int>& nodes,
                            const std::map<int, int>& node_of) {
  SweeperCpus chosen;
  const std::vector<int>& cpus = options.sweeper_cpus;
  for (const int node : nodes) {
    const auto own =
        std::find_if(cpus.begin(), cpus.end(), [&](int cpu) { return node_of.at(cpu) == node; });
    chosen.of_node.push_back(own == cpus.end() ? -1 : *own);
  }
  if (!cpus.empty()) {
    chosen.offcore = cpus.front();
    chosen.stitcher = cpus.back();
  }
  if (options.enforcer_cpu >= 0) chosen.stitcher = options.enforcer_cpu;
  return chosen;
}

void validate(const MeasureOptions& options, std::uint32_t slices, const std::set<int>& allowed,
              const std::map<int, int>& node_of) {
  if (options.worker_cpus.empty()) refuse("worker_cpus is empty; it must name at least one CPU");
  require_distinct(options.worker_cpus);
  const std::set<int> workers(options.worker_cpus.begin(), options.worker_cpus.end());
  require_allowed(options.worker_cpus, allowed, "worker_cpus");
  require_allowed(options.router_cpus, allowed, "router_cpus");
  for (const Antagonist& antagonist : options.antagonists) {
    require_allowed({antagonist.cpu}, allowed, "antagonists");
    if (!(antagonist.strength > 0.0 && antagonist.strength < 1.0)) {
      refuse("an antagonist's strength", antagonist.strength, "lie between 0 and 1");
    }
  }
  if (options.enforcer_cpu >= 0) require_allowed({options.enforcer_cpu}, allowed, "enforcer_cpu");
  require_allowed(options.sweeper_cpus, allowed, "sweeper_cpus");
  if (!(options.sweep_seconds >= 0.0)) {
    refuse("sweep_seconds", options.sweep_seconds, "be at least 0; 0 is no sweeping");
  }
  validate_schedule(options.schedule, slices, workers, node_of);
  for (const ScheduleChange& change : options.changes) {
    validate_schedule(change.schedule, slices, workers, node_of);
  }
  if (options.batch == 0 || options.batch > Worker::max_batch) {
    refuse("batch", options.batch, "lie in 1 .. " + std::to_string(Worker::max_batch));
  }
  if (!(options.seconds > 0.0 && options.seconds <= 3600.0)) {
    // The upper end keeps stamps within their 46 bits.
    refuse("seconds", options.seconds, "be above 0 and at most 3600");
  }
  if (!(options.warmup_seconds >= 0.0 && options.warmup_seconds <= 3600.0)) {
    refuse("warmup_seconds", options.warmup_seconds, "be at least 0 and at most 3600");
  }
  constexpr std::uint32_t most = 1U << 24;
  if (options.queue_items == 0 || options.queue_items > most) {
    refuse("queue_items", options.queue_items, "lie in 1 .. " + std::to_string(most));
  }
  if (options.window > most) {
    refuse("window", options.window, "be at most " + std::to_string(most));
  }
  if (options.load == LoadKind::closed && options.outstanding_per_worker == 0) {
    refuse("outstanding_per_worker", options.outstanding_per_worker,
           "be at least 1 for a closed load");
  }
  if (options.load == LoadKind::open && !(options.rate_mqs > 0.0 && options.rate_mqs <= 1e6)) {
    refuse("rate_mqs", options.rate_mqs,
           "be above 0 and at most 1000000 (million queries per second) for an open load");
  }
}

const WorkloadSpec& checked(const WorkloadSpec& spec) {
  if (spec.max_scan_length > Item::max_scan_length) {
    refuse("max_scan_length", spec.max_scan_length,
           "be at most " + std::to_string(Item::max_scan_length));
  }
  return spec;
}

std::vector<int> choose_router(const MeasureOptions& options, const std::set<int>& allowed) {
  std::set<int> free = allowed;
  for (const int cpu : options.worker_cpus) free.erase(cpu);
  for (const Antagonist& antagonist : options.antagonists) free.erase(antagonist.cpu);
  return {free.empty() ? options.worker_cpus.back() : *free.begin()};
}

void collect_worker(const Worker& worker, std::size_t number, std::size_t slices,
                    Measurement& result, Histogram& latency, std::vector<double>& enabled,
                    std::vector<double>& running) {
  const double seconds_per_tick = Clock::ns_per_tick() * 1e-9;
  const Worker::Totals& totals = worker.totals();
  const auto& events = worker.counters().events();
  const auto& group_of = worker.counters().group_of();
  const std::size_t groups = worker.counters().group_count();
  const std::vector<pmu::Availability> available = worker.availability();

  result.completed += totals.queries;
  const QueryExecutor::Totals& executed = worker.executed();
  result.executed += executed.executed;
  result.inserted += executed.inserted;
  result.not_found += executed.not_found;
  result.checksum ^= executed.checksum;
  result.windows += totals.windows;
  result.worker_queries[number] = totals.queries;
  result.worker_seconds[number] =
      static_cast<double>(totals.end_ticks - totals.begin_ticks) * seconds_per_tick;
  result.worker_idle_seconds[number] = static_cast<double>(totals.idle_ticks) * seconds_per_tick;
  result.worker_cpus[number] = totals.cpu;
  latency.merge(totals.latency);

  for (std::size_t slice = 0; slice < slices; ++slice) {
    const auto& counted = totals.slices[slice];
    result.slice_queries[slice] += counted.queries;
    result.slice_service_seconds[slice] +=
        static_cast<double>(counted.service_ticks) * seconds_per_tick;
    result.worker_slice_queries[number * slices + slice] = counted.queries;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const std::size_t cell = slice * pmu::event_count + pmu::index_of(events[i]);
      result.slice_counters[cell] += totals.counters[slice * events.size() + i];
      result.slice_counted[cell] += totals.counted[slice * groups + group_of[i]];
    }
  }
  // A group is enabled while it is its turn; the one that always is tells how long that could be.
  std::uint64_t whole_ns = 0;
  for (std::size_t group = 0; group < groups; ++group) {
    whole_ns = std::max(
        whole_ns, totals.end.groups[group].enabled_ns - totals.begin.groups[group].enabled_ns);
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::size_t event = pmu::index_of(events[i]);
    if (!available[event].available()) continue;
    result.worker_counters[number * pmu::event_count + event] =
        static_cast<double>(totals.end.values[event] - totals.begin.values[event]);
    const auto& begin = totals.begin.groups[group_of[i]];
    const auto& end = totals.end.groups[group_of[i]];
    enabled[event] += static_cast<double>(whole_ns);
    running[event] += static_cast<double>(end.running_ns - begin.running_ns);
  }
  // An event counts for the measurement if every worker could open and read it.
  for (std::size_t event = 0; event < pmu::event_count; ++event) {
    if (result.availability[event].available() && !available[event].available()) {
      result.availability[event] = available[event];
    }
  }
}

std::unique_ptr<ServedIndex> make_index(const WorkloadSpec& spec, const Runner::Options& options) {
  if (options.index == IndexKind::btree) {
    return std::make_unique<ServedBTree>(
        spec, BTree::Options{options.slices, options.huge_pages, options.placement});
  }
  RTree::Options of_tree;
  of_tree.grid = grid_of(options.slices);
  of_tree.huge_pages = options.huge_pages;
  of_tree.placement = options.placement;
  return std::make_unique<ServedRTree>(spec, of_tree);
}

}  // namespace

Runner::Runner(const WorkloadSpec& spec, const Options& options)
    : spec_(checked(spec)),
      options_(options),
      index_(make_index(spec, options)),
      homes_(options.slices),
      next_insert_record_(spec.records) {
  if (options_.load_threads == 0) {
    options_.load_threads = static_cast<unsigned>(numa::allowed_cpus().size());
  }
}

const BTree* Runner::btree() const noexcept {
  const auto* const served = dynamic_cast<const ServedBTree*>(index_.get());
  return served != nullptr ? &served->tree() : nullptr;
}

const RTree* Runner::rtree() const noexcept {
  const auto* const served = dynamic_cast<const ServedRTree*>(index_.get());
  return served != nullptr ? &served->tree() : nullptr;
}

void Runner::load(const Progress& progress) {
  const Exclusive exclusive(busy_);
  numa::require_memory(index_->bytes_to_load(),
                       "an index of " + std::to_string(spec_.records) + " records",
                       "ask for fewer records");
  homes_.assign(options_.slices, std::nullopt);
  const std::uint32_t slices = options_.slices;
  const std::uint32_t threads = std::min(options_.load_threads, slices);
  // A line for each: they count often.
  struct alignas(128) Count {
    std::atomic<std::uint64_t> done{0};
  };
  const auto counts = std::make_unique<Count[]>(threads);

  Control control;
  Crew crew(control);
  for (std::uint32_t number = 0; number < threads; ++number) {
    const std::uint64_t first = std::uint64_t{slices} * number / threads;
    const std::uint64_t last = std::uint64_t{slices} * (number + 1) / threads;
    crew.start("loader " + std::to_string(number), [&, number, first, last] {
      index_->load(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last),
                   counts[number].done, [&] { return control.phase() == Phase::abort; });
    });
  }
  const auto records_done = [&] {
    std::uint64_t sum = 0;
    for (std::uint32_t number = 0; number < threads; ++number) {
      sum += counts[number].done.load(std::memory_order_relaxed);
    }
    return sum;
  };
  Poll poll;
  if (progress) poll = [&] { return progress(records_done()); };
  check(control.wait_finished(crew.size(), poll), control);
  crew.join();
  if (progress) progress(records_done());
  loaded_ = true;
}

Measurement Runner::measure(const MeasureOptions& options, const Poll& poll) {
  const Exclusive exclusive(busy_);
  if (!loaded_) throw RunnerError("the index is empty: call load() first");
  const std::vector<int> allowed_list = numa::allowed_cpus();
  const std::set<int> allowed(allowed_list.begin(), allowed_list.end());
  const std::map<int, int> node_of = nodes_of_cpus();
  validate(options, options_.slices, allowed, node_of);

  const std::vector<int>& worker_cpus = options.worker_cpus;
  const std::vector<int> router_cpus =
      options.router_cpus.empty() ? choose_router(options, allowed) : options.router_cpus;
  const std::size_t worker_count = worker_cpus.size();
  const std::size_t router_count = router_cpus.size();
  std::map<int, int> roles_on;
  for (const int cpu : worker_cpus) ++roles_on[cpu];
  for (const int cpu : router_cpus) ++roles_on[cpu];

  std::map<int, std::uint32_t> worker_on;
  for (std::size_t i = 0; i < worker_count; ++i) {
    worker_on[worker_cpus[i]] = static_cast<std::uint32_t>(i);
  }
  RouteBoard board(routes_for(options.schedule, options_.slices, worker_cpus, node_of));

  const double ns_per_tick = Clock::ns_per_tick();
  const std::uint64_t origin = Clock::ticks();
  const std::vector<pmu::Availability> probed = pmu::probe(options.opener);

  std::vector<std::unique_ptr<Router>> routers;
  const std::uint64_t tokens = std::uint64_t{options.outstanding_per_worker} * worker_count;
  if (options.load == LoadKind::closed && tokens < router_count) {
    refuse(std::to_string(router_count) + " routers for " + std::to_string(tokens) +
           " queries in flight (outstanding_per_worker is " +
           std::to_string(options.outstanding_per_worker) + ", with " +
           std::to_string(worker_count) + (worker_count == 1 ? " worker" : " workers") +
           "); each router must have at least one: raise outstanding_per_worker or name fewer "
           "router_cpus");
  }
  for (std::size_t i = 0; i < router_count; ++i) {
    Router::Settings settings;
    settings.number = i;
    settings.routers = router_count;
    settings.load = options.load;
    settings.tokens = tokens * (i + 1) / router_count - tokens * i / router_count;
    if (options.load == LoadKind::open) {
      const double ticks_per_query = 1e3 / options.rate_mqs / ns_per_tick;
      settings.ticks_per_arrival = ticks_per_query * static_cast<double>(router_count);
      settings.first_arrival_ticks = ticks_per_query * static_cast<double>(i);
    }
    settings.origin = origin;
    settings.shares_core = roles_on[router_cpus[i]] > 1;
    routers.push_back(
        std::make_unique<Router>(settings, *index_, options.seed, next_insert_record_, board));
  }
  // Whatever happens from here on, no record that a router may have drawn is drawn again.
  struct AdvanceRecords {
    std::uint64_t& next;
    const std::vector<std::unique_ptr<Router>>& routers;
    ~AdvanceRecords() {
      std::uint64_t most = 0;
      for (const auto& router : routers) most = std::max(most, router->totals().insert_draws);
      next += most * routers.size();
    }
  } const advance{next_insert_record_, routers};

  std::vector<std::unique_ptr<Worker>> workers(worker_count);
  std::atomic<std::size_t> routers_running{router_count};
  // A router on a worker's CPU has no thread of its own: the worker does its work.
  std::vector<std::vector<std::size_t>> aboard(worker_count);
  for (std::size_t i = 0; i < router_count; ++i) {
    if (const auto worker = worker_on.find(router_cpus[i]); worker != worker_on.end()) {
      aboard[worker->second].push_back(i);
    }
  }
  const auto connect = [&](std::size_t router) {
    std::vector<Ring*> rings;
    for (const auto& worker : workers) rings.push_back(&worker->ring(router));
    routers[router]->connect(std::move(rings));
    return routers[router].get();
  };
  std::set<int> nodes_with_workers;
  for (const int cpu : worker_cpus) nodes_with_workers.insert(node_of.at(cpu));
  const std::vector<int> nodes(nodes_with_workers.begin(), nodes_with_workers.end());
  const SweeperCpus sweepers = choose_sweepers(options, nodes, node_of);
  const pmu::OffcoreCounters offcore;
  Rounds rounds(options.seconds, options.sweep_seconds);
  Stitcher stitcher(nodes);
  std::optional<Enforcement> enforcement;
  Control control;
  Crew crew(control);  // after all that its threads use

  for (std::size_t i = 0; i < worker_count; ++i) {
    Worker::Settings settings;
    settings.routers = router_count;
    settings.queue_items = options.queue_items;
    settings.slices = options_.slices;
    settings.window = options.window;
    settings.batch = options.batch;
    settings.origin = origin;
    settings.sweeping = rounds.count() > 0;
    crew.start(role("worker", i, worker_cpus[i]), [&, i, settings] {
      numa::pin_thread(worker_cpus[i]);
      if (options.on_worker_start) options.on_worker_start(i);
      workers[i] = std::make_unique<Worker>(
          settings, *index_, pmu::ThreadCounters(probed, options.counters, options.opener));
      if (control.wait_for_start() == Phase::abort) return;
      std::vector<Router*> own;
      for (const std::size_t router : aboard[i]) own.push_back(connect(router));
      workers[i]->run(control, routers_running, std::move(own));
    });
  }
  for (std::size_t i = 0; i < router_count; ++i) {
    if (worker_on.contains(router_cpus[i])) continue;
    crew.start(role("router", i, router_cpus[i]), [&, i] {
      numa::pin_thread(router_cpus[i]);
      if (control.wait_for_start() == Phase::abort) return;
      connect(i)->run(control);
      routers_running.fetch_sub(1, std::memory_order_release);
    });
  }
  std::atomic<std::uint64_t> streamed{0};
  for (std::size_t i = 0; i < options.antagonists.size(); ++i) {
    const Antagonist& antagonist = options.antagonists[i];
    for (unsigned copy = 0; copy < threads_of(antagonist); ++copy) {
      crew.start(role("antagonist", i, antagonist.cpu), [&] {
        numa::pin_thread(antagonist.cpu);
        Disturbance disturbance(antagonist);
        if (control.wait_for_start() == Phase::abort) return;
        streamed.fetch_add(disturbance.run(control));
      });
    }
  }

  check(control.wait_ready(crew.size(), poll), control);
  // Only now do the workers exist whose queues are swept and whose turns the enforcer follows.
  if (options.schedule.data != DataPlacement::keep || !options.changes.empty()) {
    std::vector<const Turns*> readers;
    for (const auto& worker : workers) readers.push_back(&worker->turns());
    enforcement.emplace(Enforcer(*index_, homes_, options.migration, std::move(readers)), board,
                        options, options_.slices, node_of);
  }
  const auto start_sweeper = [&](std::string name, int cpu, auto body) {
    crew.start(std::move(name), [&control, cpu, body] {
      if (cpu >= 0) numa::pin_thread(cpu);
      if (control.wait_for_start() != Phase::abort) body();
    });
  };
  if (rounds.count() > 0) {
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      std::vector<StatsQueue*> queues;
      for (std::size_t i = 0; i < worker_count; ++i) {
        if (node_of.at(worker_cpus[i]) == nodes[node]) queues.push_back(&workers[i]->stats());
      }
      start_sweeper(
          "sweeper of node " + std::to_string(nodes[node]), sweepers.of_node[node],
          [&, node, queues] { sweep_cores(control, rounds, node, queues, stitcher.cores()); });
    }
    start_sweeper("sweeper off the cores", sweepers.offcore,
                  [&] { sweep_offcore(control, rounds, offcore, stitcher.offcore()); });
  }
  if (rounds.count() > 0 || enforcement) {
    start_sweeper("stitcher", sweepers.stitcher, [&] {
      run_stitcher(control, stitcher, enforcement ? &*enforcement : nullptr,
                   options.migration.pace);
    });
  }
  check(control.wait_ready(crew.size(), poll), control);
  control.enter(Phase::warmup);
  check(control.wait_for(std::chrono::duration<double>(options.warmup_seconds), poll), control);
  // Aggressively moved data arrive before anything counts; lazily moved ones while it does.
  const auto warm = std::chrono::steady_clock::now();
  if (enforcement && options.migration.pace == MigrationPace::aggressive) {
    while (!enforcement->in_place()) {
      check(control.wait_for(std::chrono::milliseconds(1), poll), control);
    }
  }
  const double placing_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - warm).count();
  const std::vector<double> offcore_begin = offcore.read_bytes();
  rounds.begin();
  const std::uint64_t begin = Clock::ticks();
  control.enter(Phase::measuring);
  auto tell_rounds = [&, told = std::size_t{0}]() mutable {
    if (!options.on_rounds) return;
    const StitchedRounds news = stitcher.since(told);
    told += news.seconds.size();
    if (!news.seconds.empty()) options.on_rounds(news);
  };
  const Poll poll_and_tell = [&] {
    tell_rounds();
    return poll && poll();
  };
  check(control.wait_for(std::chrono::duration<double>(options.seconds), poll_and_tell), control);
  const std::uint64_t end = Clock::ticks();
  const std::vector<double> offcore_end = offcore.read_bytes();
  control.enter(Phase::drain);
  check(control.wait_finished(crew.size(), poll), control);
  crew.join();

  const std::size_t slices = options_.slices;
  Measurement result;
  result.seconds = static_cast<double>(end - begin) * ns_per_tick * 1e-9;
  result.slice_queries.resize(slices);
  result.slice_service_seconds.resize(slices);
  result.slice_counters.resize(slices * pmu::event_count);
  result.slice_counted.resize(slices * pmu::event_count);
  result.offcore = offcore.quantities();
  for (std::size_t i = 0; i < offcore_end.size(); ++i) {
    result.offcore_gb_per_s.push_back((offcore_end[i] - offcore_begin[i]) / result.seconds / 1e9);
  }
  result.availability = probed;
  result.running_ratio.resize(pmu::event_count);
  result.worker_queries.resize(worker_count);
  result.worker_slice_queries.resize(worker_count * slices);
  result.worker_counters.resize(worker_count * pmu::event_count);
  result.worker_seconds.resize(worker_count);
  result.worker_idle_seconds.resize(worker_count);
  result.worker_cpus.resize(worker_count);

  Histogram latency;
  std::vector<double> enabled(pmu::event_count);
  std::vector<double> running(pmu::event_count);
  for (std::size_t i = 0; i < worker_count; ++i) {
    collect_worker(*workers[i], i, slices, result, latency, enabled, running);
  }
  for (std::size_t event = 0; event < pmu::event_count; ++event) {
    if (!result.availability[event].available()) {
      // Half a column would look like a whole one.
      for (std::size_t slice = 0; slice < slices; ++slice) {
        result.slice_counters[slice * pmu::event_count + event] = 0.0;
        result.slice_counted[slice * pmu::event_count + event] = 0.0;
      }
      for (std::size_t i = 0; i < worker_count; ++i) {
        result.worker_counters[i * pmu::event_count + event] = 0.0;
      }
    } else if (enabled[event] > 0.0) {
      result.running_ratio[event] = std::min(1.0, running[event] / enabled[event]);
    }
  }
  result.latency_p50_us = latency.quantile(0.50) * ns_per_tick * 1e-3;
  result.latency_p99_us = latency.quantile(0.99) * ns_per_tick * 1e-3;

  for (const auto& router : routers) {
    const Router::Totals& totals = router->totals();
    result.issued += totals.issued;
    result.backpressure += totals.backpressure;
    result.skipped += totals.skipped;
    result.max_outstanding += totals.max_outstanding;
    result.max_lag_us =
        std::max(result.max_lag_us, static_cast<double>(totals.max_lag_ticks) * ns_per_tick * 1e-3);
    result.router_cpus.push_back(totals.cpu);
  }
  for (const Antagonist& antagonist : options.antagonists) {
    result.antagonist_cpus.push_back(antagonist.cpu);
  }
  result.antagonist_bytes = streamed.load();
  result.placing_seconds = placing_seconds;
  stitcher.stitch();
  tell_rounds();
  result.rounds = stitcher.rounds();
  result.sweeper_cpus = sweepers.of_node;
  result.sweeper_cpus.insert(result.sweeper_cpus.end(), {sweepers.offcore, sweepers.stitcher});
  result.counter_groups = workers.front()->counters().group_count();
  result.user_read_groups = result.counter_groups;
  for (const auto& worker : workers) {
    result.user_read_groups =
        std::min(result.user_read_groups, worker->counters().user_read_groups());
  }
  const Schedule* last = &options.schedule;
  if (enforcement) {
    result.migration = enforcement->report();
    result.in_place = enforcement->in_place();
    result.schedules = enforcement->schedules();
    if (result.schedules > 0) last = &options.changes[result.schedules - 1].schedule;
  }
  ask_for_pages(*last, result);
  result.roles_share_cores = std::any_of(roles_on.begin(), roles_on.end(),
                                         [](const auto& item) { return item.second > 1; });
  return result;
}

// What moving came to is the kernel's answer, not ours.
void Runner::ask_for_pages(const Schedule& schedule, Measurement& result) const {
  const std::uint32_t slices = options_.slices;
  result.slice_pages.resize(slices);
  result.slice_pages_home.resize(slices);
  if (schedule.data == DataPlacement::keep) return;
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    const numa::ResidentPages pages = index_->resident_pages(slice);
    result.pages += pages;
    if (pages.error_number != 0) return;
    result.slice_pages[slice] = pages.total();
    result.slice_pages_home[slice] = schedule.data == DataPlacement::interleaved
                                         ? pages.total()
                                         : pages.on(schedule.nodes[slice]);
  }
}

}  // namespace pmoss::runtime
