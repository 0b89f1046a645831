// The system under test on this host: an index, threads that route queries to it and threads that
// execute them, and what was counted meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "index/btree.hpp"
#include "index/rtree.hpp"
#include "pmu/counters.hpp"
#include "pmu/offcore.hpp"
#include "runtime/antagonist.hpp"
#include "runtime/enforcer.hpp"
#include "runtime/schedule.hpp"
#include "runtime/served_index.hpp"
#include "runtime/sweeping.hpp"
#include "workload/generator.hpp"

namespace pmoss::runtime {

/// A measurement could not be made; what() names the role, the CPU and the cause. The exception of
/// the thread that failed is nested in it (std::rethrow_if_nested).
class RunnerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller asked to stop. All threads have ended.
class Cancelled : public RunnerError {
 public:
  using RunnerError::RunnerError;
};

/// How queries are offered (the three regimes of the environment).
enum class LoadKind : std::uint8_t {
  closed,     ///< a fixed number in flight; each completion is followed by a new draw
  saturated,  ///< every worker always has a backlog: the sum of what the workers can do
  open,       ///< arrivals at a fixed rate, whatever the workers can do
};

/// A schedule that takes effect while queries run: at once for cores, as the pace has it for data.
struct ScheduleChange {
  double after_seconds = 0.0;  ///< of the measuring phase
  Schedule schedule;
};

struct MeasureOptions {
  Schedule schedule;
  std::vector<ScheduleChange> changes;  ///< in the order of their times
  Enforcer::Settings migration;         ///< how data come to where a schedule wants them
  int enforcer_cpu = -1;  ///< of the stitcher, who enforces; -1: the last of the sweepers' CPUs
  /// Of the sweepers: each takes one of its node, and the one off the cores the first. Those for
  /// whom there is none run wherever the kernel puts them.
  std::vector<int> sweeper_cpus;
  double sweep_seconds = 0.1;    ///< length of a sweeping round; 0: no sweeping
  std::vector<int> worker_cpus;  ///< one worker each, distinct; those without a slice stay idle
  std::vector<int> router_cpus;  ///< one router each; empty: one, on a CPU without a worker if any
  std::vector<Antagonist> antagonists;  ///< co-tenants

  LoadKind load = LoadKind::closed;
  std::uint32_t outstanding_per_worker = 32;  ///< closed: queries in flight = this x workers
  double rate_mqs = 0.0;                      ///< open: arrivals in million queries per second
  double seconds = 1.0;
  double warmup_seconds = 0.2;
  std::uint64_t seed = 0;
  std::uint32_t batch = 1;           ///< queries that a worker executes together, at most 64
  std::uint32_t window = 100;        ///< queries per counter window; 0 = no counters per slice
  std::uint32_t queue_items = 4096;  ///< room of the queue from one router to one worker

  pmu::ThreadCounters::Options counters{};
  pmu::Opener opener = pmu::system_opener();
  /// Called with the sweeping rounds that are new, while measuring, on the caller's thread.
  std::function<void(const StitchedRounds&)> on_rounds;
  /// Called on each worker's thread, with its number, once the thread is bound to its CPU.
  std::function<void(std::size_t)> on_worker_start;
};

/// Counter matrices are row-major with one column per pmu::Event; columns of events that this host
/// does not count are 0 and marked in `availability`. Nothing is divided or scaled.
struct Measurement {
  std::uint64_t completed = 0;  ///< queries completed within `seconds`
  double seconds = 0.0;

  // Per slice.
  std::vector<std::uint64_t> slice_queries;
  /// Wall time that the workers spent on the slice's queries: in the index, taking them from the
  /// queue and accounting for them. Without waiting, routing and the reading of counters.
  std::vector<double> slice_service_seconds;
  /// Counted in windows of consecutive queries, over the same time as slice_service_seconds, so
  /// that task_clock per query is at most the service time per query but for the clocks' noise. A
  /// window's counts are shared out over its queries in proportion to their service times: exact
  /// for events that follow time, a proxy for misses (see runtime::Window).
  std::vector<double> slice_counters;
  /// The queries behind each entry of slice_counters, weighted with the part of the window in which
  /// the event really counted. counters / counted = per query; x queries = the slice's total.
  std::vector<double> slice_counted;
  std::uint64_t windows = 0;

  // Per event.
  std::vector<pmu::Availability> availability;
  std::vector<double> running_ratio;  ///< part of the time in which the event really counted

  std::size_t counter_groups = 0;    ///< of every worker
  std::size_t user_read_groups = 0;  ///< of these, read without system calls by every worker

  /// The sweeping rounds of the measuring phase.
  StitchedRounds rounds;

  // Outside of the cores.
  std::vector<pmu::OffcoreQuantity> offcore;
  std::vector<double> offcore_gb_per_s;  ///< 0 where not available

  // Per worker, in the order of MeasureOptions::worker_cpus.
  std::vector<std::uint64_t> worker_queries;
  std::vector<std::uint64_t> worker_slice_queries;  ///< [workers x slices]
  std::vector<double> worker_counters;  ///< [workers x events], totals with waiting and all
  std::vector<double> worker_seconds;
  std::vector<double> worker_idle_seconds;  ///< of these, without a query to work on

  double latency_p50_us = 0.0;  ///< from arrival (open), or from being drawn, to completion
  double latency_p99_us = 0.0;

  std::uint64_t issued = 0;     ///< queries sent to workers, warm-up and end included
  std::uint64_t executed = 0;   ///< queries executed, likewise
  std::uint64_t inserted = 0;   ///< new keys, likewise
  std::uint64_t not_found = 0;  ///< lookups and updates without their key: 0 unless keys are lost
  std::uint64_t checksum = 0;   ///< of all values read, so that no read can be left out
  std::uint64_t backpressure = 0;     ///< times that a router had to wait for room in a queue
  std::uint64_t skipped = 0;          ///< saturated: draws dropped because their worker had enough
  std::uint64_t max_outstanding = 0;  ///< closed: most queries in flight at once
  double max_lag_us = 0.0;            ///< open: how far a router fell behind its plan

  // The data.
  MigrationReport migration;
  double placing_seconds = 0.0;  ///< that the measuring phase waited for the data to arrive
  bool in_place = true;          ///< all data were where the last schedule wants them at the end
  std::uint64_t schedules = 0;   ///< changes that were enforced
  std::vector<std::uint64_t> slice_pages;  ///< of 4 KiB that are there; 0 if the kernel is silent
  std::vector<std::uint64_t> slice_pages_home;  ///< of these, on the node that was asked for
  numa::ResidentPages pages;                    ///< of all slices, as the kernel answers

  // Where the roles really ran.
  std::vector<int> worker_cpus;
  std::vector<int> router_cpus;
  std::vector<int> sweeper_cpus;  ///< of each node's, the one off the cores, the stitcher; or -1
  std::vector<int> antagonist_cpus;
  std::uint64_t antagonist_bytes = 0;  ///< that they streamed
  bool roles_share_cores = false;      ///< some CPU carries more than one worker or router
};

/// Owns an index of `spec.records` keys or points and measures schedules on it. Inserts stay in the
/// index; later measurements insert other keys. One call at a time.
class Runner {
 public:
  struct Options {
    std::uint32_t slices = 256;
    bool huge_pages = true;
    unsigned load_threads = 0;       ///< 0: one per CPU that the process may use
    numa::Placement placement = {};  ///< of the pages that loading touches
    IndexKind index = IndexKind::btree;
  };

  /// Throws std::invalid_argument for a spec or options that make no sense.
  Runner(const WorkloadSpec& spec, const Options& options);

  /// Called about 20 times a second on the caller's thread. True asks to stop; an exception stops
  /// as well, and leaves load() or measure() once all threads have ended.
  using Poll = std::function<bool()>;
  using Progress = std::function<bool(std::uint64_t records_done)>;

  /// Inserts all records. Throws std::invalid_argument if there is less memory than they need,
  /// Cancelled (then it can be called again), std::bad_alloc, RunnerError.
  void load(const Progress& progress = {});

  /// Throws std::invalid_argument, RunnerError, Cancelled.
  Measurement measure(const MeasureOptions& options, const Poll& poll = {});

  const WorkloadSpec& spec() const noexcept { return spec_; }
  const Options& options() const noexcept { return options_; }
  const ServedIndex& index() const noexcept { return *index_; }
  /// The index by its kind; null if it is the other one.
  const BTree* btree() const noexcept;
  const RTree* rtree() const noexcept;
  bool loaded() const noexcept { return loaded_; }
  /// No record from here on has been inserted.
  std::uint64_t next_insert_record() const noexcept { return next_insert_record_; }

 private:
  void ask_for_pages(const Schedule& schedule, Measurement& result) const;

  WorkloadSpec spec_;
  Options options_;
  std::unique_ptr<ServedIndex> index_;
  Homes homes_;
  std::atomic<bool> busy_{false};
  bool loaded_ = false;
  std::uint64_t next_insert_record_;
};

}  // namespace pmoss::runtime
