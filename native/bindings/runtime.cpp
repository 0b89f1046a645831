// The measuring runtime.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/co_tenants.hpp"
#include "bindings/events.hpp"
#include "bindings/host_bindings.hpp"
#include "bindings/index_views.hpp"
#include "bindings/integers.hpp"
#include "bindings/names.hpp"
#include "environment/forks.hpp"
#include "kinds/index_kind.hpp"
#include "runtime/runner.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using runtime::LoadKind;
using runtime::Measurement;
using runtime::MeasureOptions;
using runtime::Runner;

LoadKind load_kind(const std::string& name) {
  if (name == "closed") return LoadKind::closed;
  if (name == "saturated") return LoadKind::saturated;
  if (name == "open") return LoadKind::open;
  throw std::invalid_argument("load is '" + name + "'; it must be closed, saturated or open");
}

std::vector<int> cpus_of(const py::object& cores) {
  const auto integers = as_integers(cores);
  if (integers.ndim() != 1) throw std::invalid_argument("cores must be one-dimensional");
  std::vector<int> cpus;
  cpus.reserve(static_cast<std::size_t>(integers.size()));
  for (py::ssize_t i = 0; i < integers.size(); ++i) {
    const std::uint64_t cpu = integers.at(i);
    if (cpu > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
      throw std::invalid_argument("cores: no CPU has the number " + std::to_string(cpu));
    }
    cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

using runtime::MigrationPace;
using runtime::MigrationStrategy;
using runtime::Schedule;

Schedule schedule_of(const py::object& cores, std::vector<int> nodes, const std::string& routing,
                     const std::string& data) {
  return {cpus_of(cores), std::move(nodes), routing_named(routing), measured_data_named(data)};
}

MigrationStrategy strategy_of(const std::string& name) {
  return named<MigrationStrategy, 2>(
      "strategy", name,
      {{{"copy", MigrationStrategy::copy}, {"move_pages", MigrationStrategy::move_pages}}});
}

MigrationPace pace_of(const std::string& name) {
  return named<MigrationPace, 2>(
      "pace", name, {{{"lazy", MigrationPace::lazy}, {"aggressive", MigrationPace::aggressive}}});
}

// Ctrl-C must end a measurement: Python only notes the signal, so the wait polls for it.
void check_signals() {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

template <typename T>
py::array_t<T> to_array(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

template <typename T>
py::array_t<T> to_matrix(const std::vector<T>& values, std::size_t columns) {
  const auto rows = static_cast<py::ssize_t>(values.size() / columns);
  return py::array_t<T>({rows, static_cast<py::ssize_t>(columns)}, values.data());
}

py::dict to_dict(const runtime::StitchedRounds& rounds) {
  const std::size_t nodes = rounds.nodes.size();
  const std::size_t count = rounds.seconds.size();
  py::dict result;
  result["nodes"] = rounds.nodes;
  result["seconds"] = to_array(rounds.seconds);
  result["queries"] = to_matrix(rounds.queries, nodes);
  result["node_seconds"] = to_matrix(rounds.node_seconds, nodes);
  result["sampled"] = to_matrix(rounds.sampled, nodes);
  result["counters"] = to_matrix(rounds.counters, nodes * pmu::event_count);
  result["offcore_gb_per_s"] =
      to_matrix(rounds.offcore_gb_per_s,
                std::max<std::size_t>(count > 0 ? rounds.offcore_gb_per_s.size() / count : 0, 1));
  return result;
}

py::list to_list(const runtime::Counts& counts) {
  py::list offcore;
  for (std::size_t i = 0; i < counts.offcore.size(); ++i) {
    py::dict quantity;
    quantity["name"] = counts.offcore[i].name;
    quantity["available"] = counts.offcore[i].available();
    quantity["reason"] = counts.offcore[i].reason;
    quantity["gb_per_s"] = counts.offcore_gb_per_s[i];
    offcore.append(std::move(quantity));
  }
  return offcore;
}

void add_counts(const runtime::Counts& m, py::dict& result) {
  const std::size_t slices = m.slice_queries.size();
  result["completed"] = m.completed;
  result["seconds"] = m.seconds;
  result["slice_queries"] = to_array(m.slice_queries);
  result["slice_service_seconds"] = to_array(m.slice_service_seconds);
  result["slice_counters"] = to_matrix(m.slice_counters, pmu::event_count);
  result["slice_counted"] = to_matrix(m.slice_counted, pmu::event_count);
  result["windows"] = m.windows;
  result["availability"] = events_list(m.availability);
  result["running_ratio"] = to_array(m.running_ratio);
  result["counter_groups"] = m.counter_groups;
  result["user_read_groups"] = m.user_read_groups;
  result["offcore"] = to_list(m);
  result["worker_queries"] = to_array(m.worker_queries);
  result["worker_slice_queries"] = to_matrix(m.worker_slice_queries, slices);
  result["worker_counters"] = to_matrix(m.worker_counters, pmu::event_count);
  result["worker_seconds"] = to_array(m.worker_seconds);
  result["worker_idle_seconds"] = to_array(m.worker_idle_seconds);
  result["worker_cpus"] = m.worker_cpus;
  result["latency_p50_us"] = m.latency_p50_us;
  result["latency_p99_us"] = m.latency_p99_us;
  result["latency_p999_us"] = m.latency_p999_us;
  result["latency_max_us"] = m.latency_max_us;
}

py::dict to_dict(const runtime::MigrationReport& report) {
  py::dict migration;
  migration["slices"] = report.slices;
  migration["slices_failed"] = report.slices_failed;
  migration["nodes"] = report.nodes;
  migration["leaves"] = report.leaves;
  migration["bytes"] = report.bytes;
  migration["pages"] = report.pages;
  migration["pages_failed"] = report.pages_failed;
  migration["reason"] = numa::explain_memory_error(report.error_number);
  migration["busy_seconds"] = report.busy_seconds;
  migration["processor_seconds"] = report.processor_seconds;
  return migration;
}

py::dict to_dict(const runtime::Round& round) {
  py::dict result;
  add_counts(round, result);
  result["number"] = round.number;
  result["ended_seconds"] = round.ended_seconds;
  result["dropped"] = round.dropped;
  result["schedules"] = round.schedules;
  result["pending_slices"] = to_array(round.pending);
  result["bytes_moved"] = round.bytes_moved;
  result["backpressure"] = round.backpressure;
  result["lag_us"] = round.lag_us;
  result["migration"] = to_dict(round.migration);
  return result;
}

py::dict to_dict(const Measurement& m) {
  py::dict result;
  add_counts(m, result);
  result["issued"] = m.issued;
  result["executed"] = m.executed;
  result["inserted"] = m.inserted;
  result["not_found"] = m.not_found;
  result["checksum"] = m.checksum;
  result["backpressure"] = m.backpressure;
  result["skipped"] = m.skipped;
  result["max_outstanding"] = m.max_outstanding;
  result["max_lag_us"] = m.max_lag_us;
  result["unanswered"] = m.unanswered;
  result["unsent"] = m.unsent;
  result["rounds"] = to_dict(m.rounds);
  result["migration"] = to_dict(m.migration);
  result["placing_seconds"] = m.placing_seconds;
  result["in_place"] = m.in_place;
  result["schedules"] = m.schedules;
  std::vector<std::uint64_t> pages, home;
  py::list causes;
  for (const runtime::SlicePlacement& slice : m.slice_placements) {
    pages.push_back(slice.pages);
    home.push_back(slice.home);
    causes.append(slice.cause());
  }
  result["slice_pages"] = to_array(pages);
  result["slice_pages_home"] = to_array(home);
  result["slice_causes"] = std::move(causes);
  result["node_pages"] = m.pages.on_node;
  result["router_cpus"] = m.router_cpus;
  result["sweeper_cpus"] = m.sweeper_cpus;
  result["co_tenant_cpus"] = m.co_tenant_cpus;
  result["co_tenant_bytes"] = m.co_tenant_bytes;
  result["roles_share_cores"] = m.roles_share_cores;
  py::list shared;
  for (const runtime::SharedCore& core : m.shared_cores) {
    py::dict entry;
    entry["cpus"] = core.cpus;
    entry["roles"] = core.roles;
    shared.append(std::move(entry));
  }
  result["shared_cores"] = std::move(shared);
  result["unbound_roles"] = m.unbound_roles;
  result["worker_pages"] = to_array(m.worker_pages);
  result["worker_pages_home"] = to_array(m.worker_pages_home);
  return result;
}

using Change = std::tuple<double, py::object, std::vector<int>, std::string, std::string>;

/// Defines a method of Runner that takes a schedule and how to run it, and `Others` named by
/// `arguments`. `run` gets the runner, the options, a poll and these, without the GIL.
template <typename... Others, typename Run, typename... Arguments>
void def_run(py::class_<Runner>& runner_class, const char* name, Run run, const char* doc,
             const Arguments&... arguments) {
  static_assert(sizeof...(Others) == sizeof...(Arguments));
  const MeasureOptions usual;
  runner_class.def(
      name,
      [run](Runner& runner, const py::object& cores, std::vector<int> worker_cpus,
            std::vector<int> router_cpus, const std::string& load,
            std::uint32_t outstanding_per_worker, double rate_mqs, double warmup_seconds,
            std::uint64_t seed, std::uint32_t window, std::uint32_t batch, std::vector<int> nodes,
            const std::string& routing, const std::string& data, const std::string& strategy,
            const std::string& pace, std::uint32_t lazy_nodes, bool always_move,
            std::vector<int> interleave_nodes, const std::vector<CoTenantFields>& co_tenants,
            std::vector<int> sweeper_cpus, double sweep_seconds, std::size_t kept_rounds,
            const py::object& cancelled, const Others&... others) {
        MeasureOptions options;
        options.sweeper_cpus = std::move(sweeper_cpus);
        options.sweep_seconds = sweep_seconds;
        options.kept_rounds = kept_rounds;
        options.schedule = schedule_of(cores, std::move(nodes), routing, data);
        options.migration = {strategy_of(strategy), pace_of(pace), lazy_nodes, always_move,
                             std::move(interleave_nodes)};
        for (const auto& co_tenant : co_tenants) {
          options.co_tenants.push_back(co_tenant_of(co_tenant));
        }
        options.batch = batch;
        options.worker_cpus = std::move(worker_cpus);
        options.router_cpus = std::move(router_cpus);
        options.load = load_kind(load);
        options.outstanding_per_worker = outstanding_per_worker;
        options.rate_mqs = rate_mqs;
        options.warmup_seconds = warmup_seconds;
        options.seed = seed;
        options.window = window;
        const auto poll = [&cancelled] {
          const py::gil_scoped_acquire acquire;
          check_signals();
          return !cancelled.is_none() && py::cast<bool>(py::bool_(cancelled()));
        };
        return run(runner, options, poll, others...);
      },
      py::arg("cores"), py::kw_only(), py::arg("worker_cpus"),
      py::arg("router_cpus") = std::vector<int>{}, py::arg("load") = "closed",
      py::arg("outstanding_per_worker") = usual.outstanding_per_worker,
      py::arg("rate_mqs") = usual.rate_mqs, py::arg("warmup_seconds") = usual.warmup_seconds,
      py::arg("seed") = usual.seed, py::arg("window") = usual.window,
      py::arg("batch") = usual.batch, py::arg("nodes") = std::vector<int>{},
      py::arg("routing") = "core", py::arg("data") = "keep", py::arg("strategy") = "copy",
      py::arg("pace") = "lazy", py::arg("lazy_nodes") = usual.migration.lazy_nodes,
      py::arg("always_move") = false, py::arg("interleave_nodes") = std::vector<int>{},
      py::arg("co_tenants") = std::vector<CoTenantFields>{},
      py::arg("sweeper_cpus") = std::vector<int>{}, py::arg("sweep_seconds") = usual.sweep_seconds,
      py::arg("kept_rounds") = usual.kept_rounds, py::arg("cancelled") = py::none(), arguments...,
      doc);
}

/// A run, for several Python threads. It belongs to the process that started it.
class LiveRun {
 public:
  LiveRun(py::object runner, std::unique_ptr<runtime::LiveRun> run)
      : runner_(std::move(runner)), run_(std::move(run)) {}
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;
  ~LiveRun() {
    if (is_forked()) {
      // There are no threads to join, and others may hold what they had locked.
      static_cast<void>(run_.release());
      static_cast<void>(runner_.release());
      return;
    }
    const py::gil_scoped_release release;
    run_.reset();
  }

  void change(const py::object& cores, std::vector<int> nodes, const std::string& routing,
              const std::string& data, const std::string& pace) {
    require_own_process();
    const Schedule schedule = schedule_of(cores, std::move(nodes), routing, data);
    const MigrationPace its_pace = pace_of(pace);
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    run_->change(schedule, its_pace);
  }

  py::object next_round(double seconds) {
    using Time = std::chrono::steady_clock;
    require_own_process();
    const auto begin = Time::now();
    for (;;) {
      const double left = seconds - std::chrono::duration<double>(Time::now() - begin).count();
      std::optional<runtime::Round> round;
      bool running = true;
      {
        const py::gil_scoped_release release;
        const std::scoped_lock lock(mutex_);
        round = run_->next_round(std::chrono::duration<double>::zero(), {});
        running = run_->running();
      }
      if (round) return to_dict(*round);
      check_signals();
      if (!running || !(left > 0.0)) return py::none();
      // Without the lock: a thread that changes the schedule must not wait for a round. In parts,
      // so that Ctrl-C gets its turn, and that the end of the run is seen.
      const py::gil_scoped_release release;
      run_->await_round(std::chrono::duration<double>(std::min(left, 0.05)));
    }
  }

  py::dict stop() {
    require_own_process();
    Measurement measurement;
    {
      const py::gil_scoped_release release;
      const std::scoped_lock lock(mutex_);
      measurement = run_->stop([] {
        const py::gil_scoped_acquire acquire;
        check_signals();
        return false;
      });
    }
    return to_dict(measurement);
  }

  void end() {
    if (is_forked()) return;
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    run_->end();
  }

  bool running() {
    if (is_forked()) return false;
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex_);
    return run_->running();
  }

 private:
  bool is_forked() const noexcept { return environment::forks() != forks_; }
  void require_own_process() const {
    if (!is_forked()) return;
    throw environment::ForkedError(
        "the threads of this run stayed in the process that started it; start a run in this "
        "process");
  }

  const std::uint32_t forks_ = environment::forks();
  py::object runner_;
  std::mutex mutex_;
  std::unique_ptr<runtime::LiveRun> run_;
};

void bind_live_run(py::module_& module) {
  py::class_<LiveRun>(module, "LiveRun",
                      "A run that goes on until it is stopped; Runner.start() makes it.")
      .def("change", &LiveRun::change, py::arg("cores"), py::kw_only(),
           py::arg("nodes") = std::vector<int>{}, py::arg("routing") = "core",
           py::arg("data") = "keep", py::arg("pace") = "lazy",
           "Another schedule, in the form of Runner.start(). Cores take it at once, data at this "
           "pace.")
      .def("next_round", &LiveRun::next_round, py::arg("timeout"),
           "The next round that was not read yet, or None if there is none within so many "
           "seconds. RunnerError is raised if a thread has failed.")
      .def("stop", &LiveRun::stop,
           "Ends all threads, and returns what the whole run counted, like Runner.measure().")
      .def("end", &LiveRun::end,
           "Ends all threads at once, and tells nothing; once they have ended it changes nothing. "
           "In a forked child it does nothing.")
      .def_property_readonly("running", &LiveRun::running);
}

void bind_runs(py::class_<Runner>& runner_class) {
  const MeasureOptions usual;
  def_run<double, std::vector<Change>, py::object>(
      runner_class, "measure",
      [](Runner& runner, MeasureOptions& options, const runtime::Poll& poll, double seconds,
         const std::vector<Change>& changes, const py::object& on_rounds) {
        options.seconds = seconds;
        for (const auto& [after_seconds, cores, nodes, routing, data] : changes) {
          options.changes.push_back({after_seconds, schedule_of(cores, nodes, routing, data), {}});
        }
        if (!on_rounds.is_none()) {
          options.on_rounds = [&on_rounds](const runtime::StitchedRounds& rounds) {
            const py::gil_scoped_acquire acquire;
            on_rounds(to_dict(rounds));
          };
        }
        Measurement measurement;
        {
          const py::gil_scoped_release release;
          measurement = runner.measure(options, poll);
        }
        return to_dict(measurement);
      },
      "Runs the schedule and returns what was counted.\n\n"
      "cores: the CPU of each slice; nodes: the node of its data; routing: core, node or any; "
      "data: keep (nothing moves), slice, interleaved or first_touch. changes: later "
      "schedules, each (seconds, cores, nodes, routing, data). strategy: copy or move_pages; "
      "pace: aggressive (the measurement waits for the data) or lazy. interleave_nodes: of "
      "interleaved data, all with CPUs if empty. co_tenants: each "
      "(spin, cache_thrash or memory_stream; CPU; strength; bytes; node or -1). sweeper_cpus: "
      "of "
      "the threads that collect counters, else anywhere; sweep_seconds: how often they do, 0 "
      "for never.\n\n"
      "Totals are over `seconds`, except issued, executed, inserted and not_found, which "
      "are of the whole run. slice_counters / slice_counted is a count per query; the "
      "columns are those of probe_events(). `cancelled` is asked about 20 times a second; "
      "when it returns true, Cancelled is raised. PlacementRefused is raised if the data "
      "cannot be placed; slice_causes says which slices are not where they should be, and "
      "why. `on_rounds` is called, as often, with the "
      "sweeping rounds that are new, in the form of the result's \"rounds\".",
      py::arg("seconds") = usual.seconds, py::arg("changes") = std::vector<Change>{},
      py::arg("on_rounds") = py::none());
  def_run(
      runner_class, "start",
      [](Runner& runner, MeasureOptions& options, const runtime::Poll& poll) {
        options.until_stopped = true;
        std::unique_ptr<runtime::LiveRun> run;
        {
          const py::gil_scoped_release release;
          run = runner.start(options, poll);
        }
        return std::make_unique<LiveRun>(py::cast(runner), std::move(run));
      },
      "Begins to serve queries under the schedule, until the LiveRun that it returns is "
      "stopped.\n\n"
      "The arguments are those of measure(), less those of a measurement that ends by itself. "
      "kept_rounds: for a reader who is late; older ones are dropped. The runner can do nothing "
      "else meanwhile.");
}

void load(Runner& runner, const py::object& progress, const std::vector<int>& nodes) {
  const py::gil_scoped_release release;
  runner.load(
      [&progress](std::uint64_t records_done) {
        const py::gil_scoped_acquire acquire;
        check_signals();
        if (!progress.is_none()) progress(records_done);
        return false;
      },
      nodes);
}

py::object load_report(const Runner& runner) {
  const runtime::LoadReport report = runner.load_report();
  if (report.loaders.empty()) return py::none();
  py::list loaders;
  for (const runtime::Loader& loader : report.loaders) {
    py::dict entry;
    entry["cpu"] = loader.cpu;
    entry["node"] = loader.node;
    entry["slices"] = std::count(loader.slices.begin(), loader.slices.end(), true);
    loaders.append(std::move(entry));
  }
  py::dict result;
  result["loaders"] = std::move(loaders);
  result["pages_by_node"] = report.pages;
  result["not_known"] =
      report.error_number != 0 ? "the kernel lists no pages in /proc/self/numa_maps" : "";
  return result;
}

}  // namespace

void bind_runtime(py::module_& module) {
  const auto& error =
      py::register_exception<runtime::RunnerError>(module, "RunnerError", PyExc_RuntimeError);
  py::register_exception<runtime::Cancelled>(module, "Cancelled", error);
  py::register_exception<runtime::PlacementRefused>(module, "PlacementRefused", error);
  module.def(
      "placement_refusal", [] { return numa::explain_memory_error(numa::refused_placement()); },
      "Why this process may not place memory or ask where it lies; empty if it may.");

  bind_live_run(module);
  const kinds::ServeOptions standard;
  py::class_<Runner> runner_class(module, "Runner",
                                  "An index on this host, and threads that measure it.");
  runner_class
      .def(py::init([](const WorkloadSpec& spec, const std::string& index, std::uint32_t slices,
                       bool huge_pages, unsigned load_threads) {
             return kinds::make_runner(kinds::kind_named(index), spec, {slices, huge_pages, {}},
                                       load_threads);
           }),
           py::arg("spec"), py::arg("index"), py::arg("slices") = standard.slices,
           py::arg("huge_pages") = standard.huge_pages, py::arg("load_threads") = 0,
           "index: the name of one of index_kinds(). load_threads=0 takes one thread for each CPU "
           "that the process may use.")
      .def("load", &load, py::arg("progress") = py::none(), py::kw_only(),
           py::arg("nodes") = std::vector<int>{},
           "Inserts all records. `nodes`: for an index that hides its memory, the node of each "
           "slice; bound loaders touch it there first, or PlacementRefused is raised. `progress` "
           "is called about 20 times a second with the number of "
           "records done; an exception that it raises stops the loading, which can be resumed.")
      .def_property_readonly("spec", &Runner::spec)
      .def_property_readonly("slices", [](const Runner& r) { return r.index().slices(); })
      .def_property_readonly("loaded", &Runner::loaded)
      .def_property_readonly("next_insert_record", &Runner::next_insert_record)
      .def_property_readonly(
          "hidden_memory", [](const Runner& r) { return r.index().hidden_memory(); },
          "Why the place of the data is unknown; empty if it is known.")
      .def_property_readonly(
          "load_report", &load_report,
          "What bound loaders did, or None: \"loaders\" (\"cpu\", \"node\", number of "
          "\"slices\"), \"pages_by_node\" that the process grew by, and why they are "
          "\"not_known\".")
      .def_property_readonly("size", [](const Runner& r) { return r.index().size(); })
      .def_property_readonly(
          "index",
          [](const py::object& self) {
            const auto& runner = py::cast<const Runner&>(self);
            for (const ViewIndex view_index : index_views()) {
              py::object view = view_index(runner.index(), self);
              if (!view.is_none()) return view;
            }
            return py::object(py::none());
          },
          "The index itself, or None if it has no Python class. Any thread may use it at any time, "
          "also while its slices move; only what load() fills must not be written before it is "
          "done. "
          "A measurement's `inserted` counts what its own workers inserted.");
  bind_runs(runner_class);
}

}  // namespace pmoss::bindings
