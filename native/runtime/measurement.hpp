// What a measurement found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "numa/memory.hpp"
#include "pmu/counters.hpp"
#include "pmu/offcore.hpp"
#include "runtime/enforcer.hpp"
#include "runtime/roles.hpp"
#include "runtime/sweeping.hpp"

namespace pmoss::runtime {

/// What the workers and the off-core counters counted in some time.
///
/// Counter matrices are row-major with one column per pmu::Event; columns of events that this host
/// does not count are 0 and marked in `availability`. Nothing is divided or scaled.
struct Counts {
  std::uint64_t completed = 0;  ///< queries completed within `seconds`
  double seconds = 0.0;

  // Per slice.
  std::vector<std::uint64_t> slice_queries;
  /// Wall time that the workers spent on the slice's queries: in the index, taking them from the
  /// queue and accounting for them. Without waiting, routing and the reading of counters.
  std::vector<double> slice_service_seconds;
  /// Counted in windows of consecutive queries, over the same time as slice_service_seconds. So
  /// task_clock per query is at most the service time per query, except for the clocks' noise. A
  /// window's counts are divided over its queries in proportion to their service times: exact for
  /// events that follow time, a proxy for misses (see runtime::Window).
  std::vector<double> slice_counters;
  /// The queries behind each entry of slice_counters, weighted with the part of the window in which
  /// the event really counted. counters / counted = per query; x queries = the slice's total.
  std::vector<double> slice_counted;
  std::uint64_t windows = 0;

  // Per event.
  /// An event is available if some worker counted it. Slices of the others have no share of it in
  /// `slice_counted`.
  std::vector<pmu::Availability> availability;
  /// Part of the workers' time in which the event really counted; 0 where it is not available.
  std::vector<double> running_ratio;

  std::size_t counter_groups = 0;    ///< of every worker
  std::size_t user_read_groups = 0;  ///< of these, read without system calls by every worker

  // Outside of the cores.
  std::vector<pmu::OffcoreQuantity> offcore;
  std::vector<double> offcore_gb_per_s;  ///< 0 where not available

  // Per worker, in the order of MeasureOptions::worker_cpus.
  std::vector<std::uint64_t> worker_queries;
  std::vector<std::uint64_t> worker_slice_queries;  ///< [workers x slices]
  std::vector<double> worker_counters;  ///< [workers x events], totals with waiting and all
  std::vector<double> worker_seconds;
  std::vector<double> worker_idle_seconds;  ///< of these, without a query to work on

  std::vector<int> worker_cpus;  ///< where they really ran

  /// From arrival (open), or from being drawn, to completion. Under an open load these are the
  /// times of the unanswered queries, too (Measurement::unanswered).
  double latency_p50_us = 0.0;
  double latency_p99_us = 0.0;
  double latency_p999_us = 0.0;
  double latency_max_us = 0.0;
};

struct Measurement : Counts {
  /// The sweeping rounds of the measuring phase.
  StitchedRounds rounds;

  std::uint64_t issued = 0;           ///< queries sent to workers, warm-up and end included
  std::uint64_t executed = 0;         ///< queries executed, likewise
  std::uint64_t inserted = 0;         ///< new keys, likewise
  std::uint64_t not_found = 0;        ///< lookups and updates without their key
  std::uint64_t checksum = 0;         ///< of all values read, so that no read can be left out
  std::uint64_t backpressure = 0;     ///< times that a router had to wait for room in a queue
  std::uint64_t skipped = 0;          ///< saturated: draws dropped because their worker had enough
  std::uint64_t max_outstanding = 0;  ///< closed: most queries in flight at once
  double max_lag_us = 0.0;            ///< open: how far a router fell behind its plan
  /// Queries that had arrived (open), or were drawn, and not done when the measuring phase ended.
  std::uint64_t unanswered = 0;
  /// Open: of these, how many no router had drawn: what its plan expects in the time it was late.
  std::uint64_t unsent = 0;

  // The data.
  MigrationReport migration;
  double placing_seconds = 0.0;  ///< that the measuring phase waited for the data to arrive
  /// All data lay where the last schedule wants them at the end; true if it wants them nowhere.
  bool in_place = true;
  std::uint64_t schedules = 0;  ///< changes that were enforced
  /// [slices] what the kernel answered at the end. Nobody asks it if the data stay where they are.
  std::vector<SlicePlacement> slice_placements;
  numa::ResidentPages pages;  ///< of all slices

  // Where the roles really ran.
  std::vector<int> router_cpus;
  /// Per worker, pages of its queues and counts, and those of them on its node; 0 if not asked for.
  std::vector<std::uint64_t> worker_pages;
  std::vector<std::uint64_t> worker_pages_home;
  std::vector<int> sweeper_cpus;  ///< of each node's, the one off the cores, the stitcher; or -1
  std::vector<int> co_tenant_cpus;
  std::uint64_t co_tenant_bytes = 0;  ///< that they streamed
  bool roles_share_cores = false;     ///< some CPU carries more than one worker or router
  std::vector<SharedCore> shared_cores;
  std::vector<std::string> unbound_roles;  ///< that run wherever the kernel puts them
};

/// One sweeping round of a run that goes on until it is stopped: all slices, whole.
/// `seconds` is the mean of the workers' times since they were asked last.
struct Round : Counts {
  std::uint64_t number = 0;
  double ended_seconds = 0.0;   ///< since the measuring phase began
  std::uint64_t dropped = 0;    ///< rounds that were dropped between the one read last and this
  std::uint64_t schedules = 0;  ///< changes that took effect until now
  std::vector<std::uint32_t> pending;  ///< slices whose data are not yet where they are to be
  std::uint64_t bytes_moved = 0;       ///< in the round, copied or by the kernel
  std::uint64_t backpressure = 0;      ///< times in the round that a router had to wait for room
  double lag_us = 0.0;        ///< open: how far the latest router was behind its plan at the end
  MigrationReport migration;  ///< of the run until now
};

}  // namespace pmoss::runtime
