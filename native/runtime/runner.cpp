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
#include "runtime/clock.hpp"
#include "runtime/control.hpp"
#include "runtime/router.hpp"
#include "runtime/worker.hpp"
#include "workload/keyspace.hpp"

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

void validate(const MeasureOptions& options, std::uint32_t slices, const std::set<int>& allowed) {
  if (options.worker_cpus.empty()) refuse("worker_cpus is empty; it must name at least one CPU");
  require_distinct(options.worker_cpus);
  const std::set<int> workers(options.worker_cpus.begin(), options.worker_cpus.end());
  require_allowed(options.worker_cpus, allowed, "worker_cpus");
  require_allowed(options.router_cpus, allowed, "router_cpus");
  require_allowed(options.busy_cpus, allowed, "busy_cpus");
  if (options.cores.size() != slices) {
    refuse("cores has " + std::to_string(options.cores.size()) + " entries for " +
           std::to_string(slices) + " slices");
  }
  for (std::size_t slice = 0; slice < options.cores.size(); ++slice) {
    if (!workers.contains(options.cores[slice])) {
      refuse("slice " + std::to_string(slice) + " is on CPU " +
             std::to_string(options.cores[slice]) + ", which has no worker");
    }
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
  pmoss::validate(spec);
  if (spec.max_scan_length > Item::max_scan_length) {
    refuse("max_scan_length", spec.max_scan_length,
           "be at most " + std::to_string(Item::max_scan_length));
  }
  return spec;
}

std::vector<int> choose_router(const MeasureOptions& options, const std::set<int>& allowed) {
  std::set<int> free = allowed;
  for (const int cpu : options.worker_cpus) free.erase(cpu);
  for (const int cpu : options.busy_cpus) free.erase(cpu);
  return {free.empty() ? options.worker_cpus.back() : *free.begin()};
}

// Keeps a core busy with arithmetic: no memory traffic, only cycles taken from its neighbours.
void be_busy(const Control& control) noexcept {
  std::uint64_t value = 1;
  while (control.phase() < Phase::drain) {
    for (int i = 0; i < 4096; ++i) value = mix64(value);
    // The compiler must not see that nobody needs the result.
    asm volatile("" : "+r"(value));
  }
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
  result.executed += totals.executed;
  result.inserted += totals.inserted;
  result.not_found += totals.not_found;
  result.checksum ^= totals.checksum;
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
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::size_t event = pmu::index_of(events[i]);
    if (!available[event].available()) continue;
    result.worker_counters[number * pmu::event_count + event] =
        static_cast<double>(totals.end.values[event] - totals.begin.values[event]);
    const auto& begin = totals.begin.groups[group_of[i]];
    const auto& end = totals.end.groups[group_of[i]];
    enabled[event] += static_cast<double>(end.enabled_ns - begin.enabled_ns);
    running[event] += static_cast<double>(end.running_ns - begin.running_ns);
  }
  // An event counts for the measurement if every worker could open and read it.
  for (std::size_t event = 0; event < pmu::event_count; ++event) {
    if (result.availability[event].available() && !available[event].available()) {
      result.availability[event] = available[event];
    }
  }
}

}  // namespace

Runner::Runner(const WorkloadSpec& spec, const Options& options)
    : spec_(checked(spec)),
      options_(options),
      index_({options.slices, options.huge_pages}),
      next_insert_record_(spec.records) {
  if (options_.load_threads == 0) {
    options_.load_threads = static_cast<unsigned>(numa::allowed_cpus().size());
  }
}

void Runner::load(const Progress& progress) {
  const Exclusive exclusive(busy_);
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
    // Each thread inserts the keys of its own slices. To find them it computes all keys, which is
    // cheap beside inserting them, and no two threads meet in one leaf or take turns on one arena.
    const std::uint64_t first = std::uint64_t{slices} * number / threads;
    const std::uint64_t last = std::uint64_t{slices} * (number + 1) / threads;
    crew.start("loader " + std::to_string(number), [&, number, first, last] {
      std::uint64_t done = 0;
      for (std::uint64_t record = 0; record < spec_.records; ++record) {
        if ((record & 0xfff) == 0) {
          counts[number].done.store(done, std::memory_order_relaxed);
          if (control.phase() == Phase::abort) return;
        }
        const std::uint64_t key = spec_.space.key(record, spec_.seed);
        const std::uint32_t slice = slice_of_key(key, slices);
        if (slice < first || slice >= last) continue;
        index_.insert(key, key);
        ++done;
      }
      counts[number].done.store(done, std::memory_order_relaxed);
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
  validate(options, options_.slices, allowed);

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
  std::vector<std::uint32_t> worker_of_slice;
  worker_of_slice.reserve(options.cores.size());
  for (const int cpu : options.cores) worker_of_slice.push_back(worker_on.at(cpu));

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
    routers.push_back(std::make_unique<Router>(settings, spec_, options.seed, next_insert_record_,
                                               worker_of_slice));
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
  Control control;
  Crew crew(control);  // after all that its threads use

  for (std::size_t i = 0; i < worker_count; ++i) {
    Worker::Settings settings;
    settings.routers = router_count;
    settings.queue_items = options.queue_items;
    settings.slices = options_.slices;
    settings.window = options.window;
    settings.max_scan_length = spec_.max_scan_length;
    settings.origin = origin;
    settings.shares_core = roles_on[worker_cpus[i]] > 1;
    crew.start(role("worker", i, worker_cpus[i]), [&, i, settings] {
      numa::pin_thread(worker_cpus[i]);
      if (options.on_worker_start) options.on_worker_start(i);
      workers[i] = std::make_unique<Worker>(
          settings, index_, pmu::ThreadCounters(probed, options.counters, options.opener));
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
  for (std::size_t i = 0; i < options.busy_cpus.size(); ++i) {
    crew.start(role("busy thread", i, options.busy_cpus[i]), [&, i] {
      numa::pin_thread(options.busy_cpus[i]);
      if (control.wait_for_start() == Phase::abort) return;
      be_busy(control);
    });
  }

  check(control.wait_ready(crew.size(), poll), control);
  control.enter(Phase::warmup);
  check(control.wait_for(std::chrono::duration<double>(options.warmup_seconds), poll), control);
  const std::uint64_t begin = Clock::ticks();
  control.enter(Phase::measuring);
  check(control.wait_for(std::chrono::duration<double>(options.seconds), poll), control);
  const std::uint64_t end = Clock::ticks();
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
  result.busy_cpus = options.busy_cpus;
  result.roles_share_cores = std::any_of(roles_on.begin(), roles_on.end(),
                                         [](const auto& item) { return item.second > 1; });
  return result;
}

}  // namespace pmoss::runtime
