// What a caller asks a measurement for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "pmu/counters.hpp"
#include "runtime/co_tenant.hpp"
#include "runtime/enforcer.hpp"
#include "runtime/schedule.hpp"
#include "runtime/sweeping.hpp"

namespace pmoss::runtime {

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
  std::optional<MigrationPace> pace = {};  ///< that of the options, if empty
};

struct MeasureOptions {
  Schedule schedule;
  std::vector<ScheduleChange> changes;  ///< in the order of their times
  Enforcer::Settings migration;         ///< how data come to where a schedule wants them
  /// Of the sweepers (choose_sweepers()). A sweeper without a CPU here runs wherever the kernel
  /// puts it.
  std::vector<int> sweeper_cpus;
  double sweep_seconds = 0.1;    ///< length of a sweeping round; 0: no sweeping
  std::vector<int> worker_cpus;  ///< one worker each, distinct; those without a slice stay idle
  std::vector<int> router_cpus;  ///< one router each; empty: one, on a CPU without a worker if any
  std::vector<CoTenant> co_tenants;  ///< co-tenants

  LoadKind load = LoadKind::closed;
  std::uint32_t outstanding_per_worker = 32;  ///< closed: queries in flight = this x workers
  double rate_mqs = 0.0;                      ///< open: arrivals in million queries per second
  double seconds = 1.0;
  /// It lasts until it is stopped, whatever `seconds` are. Its rounds are read one by one.
  bool until_stopped = false;
  std::size_t kept_rounds = 64;  ///< of these, for a late reader; older ones are dropped
  double warmup_seconds = 0.2;
  std::uint64_t seed = 0;
  std::uint32_t batch = 1;           ///< queries that a worker executes together, at most 64
  std::uint32_t window = 100;        ///< least queries per counter window; 0: none per slice
  std::uint32_t queue_items = 4096;  ///< from a router to a worker, see Plan::queue_items()

  pmu::ThreadCounters::Options counters{};
  pmu::Opener opener = pmu::system_opener();
  /// Called with the sweeping rounds that are new, while measuring, on the caller's thread.
  std::function<void(const StitchedRounds&)> on_rounds;
  /// Called on each worker's thread, with its number, once the thread is bound to its CPU.
  std::function<void(std::size_t)> on_worker_start;
};

}  // namespace pmoss::runtime
