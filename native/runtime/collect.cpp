#include "runtime/collect.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/clock.hpp"
#include "workload/histogram.hpp"

namespace pmoss::runtime {
namespace {

double seconds_of(std::uint64_t ticks) {
  return static_cast<double>(ticks) * (Clock::ns_per_tick() * 1e-9);
}

/// Adds up what the workers counted.
class WorkerSums {
 public:
  WorkerSums(const Plan& plan, Counts& result)
      : slices_(plan.slices), workers_(plan.workers()), result_(result) {
    result.slice_queries.resize(slices_);
    result.slice_service_seconds.resize(slices_);
    result.slice_counters.resize(slices_ * pmu::event_count);
    result.slice_counted.resize(slices_ * pmu::event_count);
    result.running_ratio.resize(pmu::event_count);
    result.worker_queries.resize(workers_);
    result.worker_slice_queries.resize(workers_ * slices_);
    result.worker_counters.resize(workers_ * pmu::event_count);
    result.worker_seconds.resize(workers_);
    result.worker_idle_seconds.resize(workers_);
    result.worker_cpus.resize(workers_);
  }

  void add(const Worker& worker, const Tally& tally, std::size_t number) {
    result_.completed += tally.queries;
    result_.windows += tally.windows;
    result_.worker_queries[number] = tally.queries;
    result_.worker_seconds[number] = seconds_of(tally.ticks);
    result_.worker_idle_seconds[number] = seconds_of(tally.idle_ticks);
    result_.worker_cpus[number] = tally.cpu;
    latency_.merge(tally.latency);
    std::vector<pmu::Availability> available = worker.availability(tally);
    add_slices(worker, tally, number, available);
    add_events(worker, tally, number, available);
    // An event counts if some worker counts it. How much of it that is, `slice_counted` tells.
    if (result_.availability.empty()) result_.availability = std::move(available);
    for (std::size_t event = 0; event < available.size(); ++event) {
      if (available[event].available() && !result_.availability[event].available()) {
        result_.availability[event] = available[event];
      }
    }
    add_groups(worker);
  }

  /// Queries that no tally holds, by their response times in ticks.
  void add_late(const Histogram& late) { latency_.merge(late); }

  /// After all workers.
  void finish() {
    for (std::size_t event = 0; event < pmu::event_count; ++event) {
      pmu::Availability& available = result_.availability[event];
      if (available.available() && running_ns_[event] <= 0.0) {
        available.source = pmu::Availability::Source::none;
        available.reason = "it had no time on the counters in this measurement";
      }
      if (!available.available()) {
        clear_column(event);
      } else {
        result_.running_ratio[event] = std::min(1.0, running_ns_[event] / enabled_ns_);
      }
    }
    const auto microseconds = [&](double q) {
      return latency_.quantile(q) * Clock::ns_per_tick() * 1e-3;
    };
    result_.latency_p50_us = microseconds(0.50);
    result_.latency_p99_us = microseconds(0.99);
    result_.latency_p999_us = microseconds(0.999);
    result_.latency_max_us = microseconds(1.0);
  }

 private:
  void add_slices(const Worker& worker, const Tally& tally, std::size_t number,
                  const std::vector<pmu::Availability>& available) {
    const auto& events = worker.counters().events();
    const auto& group_of = worker.counters().group_of();
    const std::size_t groups = worker.counters().group_count();
    for (std::size_t slice = 0; slice < slices_; ++slice) {
      const auto& counted = tally.slices[slice];
      result_.slice_queries[slice] += counted.queries;
      result_.slice_service_seconds[slice] += seconds_of(counted.service_ticks);
      result_.worker_slice_queries[number * slices_ + slice] = counted.queries;
      for (std::size_t i = 0; i < events.size(); ++i) {
        if (!available[pmu::index_of(events[i])].available()) continue;
        const std::size_t cell = slice * pmu::event_count + pmu::index_of(events[i]);
        result_.slice_counters[cell] += tally.counters[slice * events.size() + i];
        result_.slice_counted[cell] += tally.counted[slice * groups + group_of[i]];
      }
    }
  }

  void add_events(const Worker& worker, const Tally& tally, std::size_t number,
                  const std::vector<pmu::Availability>& available) {
    const auto& events = worker.counters().events();
    const auto& group_of = worker.counters().group_of();
    // Groups that rotate are enabled in turn. The longest enabled time is that of the whole phase.
    std::uint64_t whole_ns = 0;
    for (std::size_t group = 0; group < worker.counters().group_count(); ++group) {
      whole_ns = std::max(
          whole_ns, tally.end.groups[group].enabled_ns - tally.begin.groups[group].enabled_ns);
    }
    if (whole_ns == 0) {
      whole_ns = static_cast<std::uint64_t>(seconds_of(tally.ticks) * 1e9);
    }
    // Also of workers that count nothing: the ratio is that of all of them.
    enabled_ns_ += static_cast<double>(whole_ns);
    for (std::size_t i = 0; i < events.size(); ++i) {
      const std::size_t event = pmu::index_of(events[i]);
      if (!available[event].available()) continue;
      result_.worker_counters[number * pmu::event_count + event] =
          static_cast<double>(tally.end.values[event] - tally.begin.values[event]);
      const auto& begin = tally.begin.groups[group_of[i]];
      const auto& end = tally.end.groups[group_of[i]];
      running_ns_[event] += static_cast<double>(end.running_ns - begin.running_ns);
    }
  }

  void add_groups(const Worker& worker) {
    const pmu::ThreadCounters& counters = worker.counters();
    const bool first = groups_of_++ == 0;
    if (first) result_.counter_groups = counters.group_count();
    result_.user_read_groups =
        first ? std::min(counters.group_count(), counters.user_read_groups())
              : std::min(result_.user_read_groups, counters.user_read_groups());
  }

  /// What was not counted is 0.
  void clear_column(std::size_t event) {
    for (std::size_t slice = 0; slice < slices_; ++slice) {
      result_.slice_counters[slice * pmu::event_count + event] = 0.0;
      result_.slice_counted[slice * pmu::event_count + event] = 0.0;
    }
    for (std::size_t i = 0; i < workers_; ++i) {
      result_.worker_counters[i * pmu::event_count + event] = 0.0;
    }
  }

  std::size_t slices_;
  std::size_t workers_;
  std::size_t groups_of_ = 0;  ///< workers
  Counts& result_;
  Histogram latency_;
  double enabled_ns_ = 0.0;
  std::vector<double> running_ns_ = std::vector<double>(pmu::event_count);
};

/// Response times, in ticks, of what an open load offered and what was not done at the end.
///
/// Without them an overload would look fast: only the queries that came early are answered. The
/// workers finish all that was sent. What was not sent would follow at the rate of the measurement;
/// of a rate of 0 it counts as long as it has waited.
Histogram late_queries(const Plan& plan, const Crew& crew, Measurement& result) {
  Histogram late;
  auto drained = static_cast<double>(crew.end_ticks());
  for (const auto& worker : crew.workers()) {
    late.merge(worker->late());
    drained = std::max(drained, static_cast<double>(worker->late_ticks_end()));
  }
  result.unanswered = late.count();
  if (plan.options.load != LoadKind::open) return late;
  const double tick_ns = Clock::ns_per_tick();
  const double gap_ticks =
      1e3 * static_cast<double>(plan.routers()) / plan.options.rate_mqs / tick_ns;
  std::vector<UnsentArrivals> unsent;
  for (const auto& router : crew.routers()) {
    const double begin = router->next_arrival_ticks();
    const double behind = static_cast<double>(crew.end_ticks()) - begin;
    if (behind < 0.0) continue;
    result.max_lag_us = std::max(result.max_lag_us, behind * tick_ns * 1e-3);
    unsent.push_back({begin, behind, 1 + static_cast<std::uint64_t>(behind / gap_ticks)});
    result.unsent += unsent.back().count;
  }
  result.unanswered += result.unsent;
  const double ticks_per_query =
      result.completed > 0 ? result.seconds * 1e9 / tick_ns / static_cast<double>(result.completed)
                           : 0.0;
  for (const UnsentArrivals& arrivals : unsent) {
    arrivals.add_to(late, drained, static_cast<double>(result.unsent) * ticks_per_query);
  }
  return late;
}

void add_workers(const Plan& plan, const Crew& crew, Measurement& result) {
  WorkerSums sums(plan, result);
  for (std::size_t i = 0; i < plan.workers(); ++i) {
    const Worker& worker = *crew.workers()[i];
    sums.add(worker, worker.tallies().total(), i);
    const QueryExecutor::Totals& executed = worker.executed();
    result.executed += executed.executed;
    result.inserted += executed.inserted;
    result.not_found += executed.not_found;
    result.checksum ^= executed.checksum;
  }
  const Histogram late = late_queries(plan, crew, result);
  // Under a closed load they are as many at any moment, and a backlog has no arrivals.
  if (plan.options.load == LoadKind::open) sums.add_late(late);
  sums.finish();
}

void add_router(const Router& router, Measurement& result) {
  const Router::Totals& totals = router.totals();
  result.issued += totals.issued;
  result.backpressure += totals.backpressure;
  result.skipped += totals.skipped;
  result.max_outstanding += totals.max_outstanding;
  result.max_lag_us = std::max(
      result.max_lag_us, static_cast<double>(totals.max_lag_ticks) * Clock::ns_per_tick() * 1e-3);
  result.router_cpus.push_back(totals.cpu);
}

void add_offcore(std::vector<pmu::OffcoreQuantity> quantities, const std::vector<double>& bytes,
                 double seconds, Counts& result) {
  result.offcore = std::move(quantities);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool available = result.offcore[i].available();
    result.offcore_gb_per_s.push_back(available ? bytes[i] / seconds / 1e9 : 0.0);
  }
}

/// What the kernel answered at the end: what was asked of it says nothing about that.
void add_data(const Crew& crew, Measurement& result) {
  const Enforcement& enforcement = *crew.enforcement();
  result.migration = enforcement.report();
  result.schedules = enforcement.schedules();
  result.slice_placements = enforcement.placements();
  result.in_place = std::all_of(result.slice_placements.begin(), result.slice_placements.end(),
                                [](const SlicePlacement& slice) { return slice.in_place(); });
  for (const SlicePlacement& slice : result.slice_placements) result.pages += slice.where;
  if (result.slice_placements.empty()) return;
  for (std::size_t i = 0; i < crew.memories().size(); ++i) {
    const NodeMemory& memory = *crew.memories()[i];
    const numa::ResidentPages pages = memory.resident_pages();
    result.worker_pages[i] = pages.total();
    result.worker_pages_home[i] = pages.on(memory.node());
  }
}

}  // namespace

void UnsentArrivals::add_to(Histogram& late, double from, double lasting) const noexcept {
  const std::uint64_t parts = std::min<std::uint64_t>(count, most_parts);
  for (std::uint64_t part = 0; part < parts; ++part) {
    const double place = (static_cast<double>(part) + 0.5) / static_cast<double>(parts);
    const double response = from + place * lasting - (begin + place * length);
    late.add(static_cast<std::uint64_t>(std::max(response, 0.0)),
             count * (part + 1) / parts - count * part / parts);
  }
}

Measurement collect(const Plan& plan, const Crew& crew) {
  Measurement result;
  result.seconds = crew.seconds();
  result.placing_seconds = crew.placing_seconds();
  result.rounds = crew.rounds();
  result.co_tenant_bytes = crew.streamed_bytes();
  add_offcore(crew.offcore(), crew.offcore_bytes(), result.seconds, result);
  add_workers(plan, crew, result);
  for (const auto& router : crew.routers()) add_router(*router, result);
  for (const CoTenant& co_tenant : plan.options.co_tenants) {
    result.co_tenant_cpus.push_back(co_tenant.cpu);
  }
  const SweeperCpus& sweepers = plan.sweepers;
  result.sweeper_cpus = sweepers.of_node;
  result.sweeper_cpus.insert(result.sweeper_cpus.end(), {sweepers.offcore, sweepers.stitcher});
  result.roles_share_cores = plan.roles_share_cores;
  result.shared_cores = plan.shared_cores;
  result.unbound_roles = plan.unbound_roles;
  result.worker_pages.resize(plan.workers());
  result.worker_pages_home.resize(plan.workers());
  if (crew.enforcement() != nullptr) add_data(crew, result);
  result.slice_placements.resize(plan.slices);
  return result;
}

std::optional<Round> RoundCollector::collect(const WholeRound& whole) {
  Round round;
  WorkerSums sums(plan_, round);
  double seconds = 0.0;
  for (const CoreSnapshot& core : whole.cores) {
    for (const auto& [number, tally] : core.workers) {
      sums.add(*crew_->workers()[number], tally, number);
      seconds += seconds_of(tally.ticks);
    }
  }
  if (seconds <= 0.0) return std::nullopt;
  sums.finish();
  round.seconds = seconds / static_cast<double>(plan_.workers());
  const OffcoreSnapshot& offcore = whole.offcore.front();
  round.number = told_++;
  round.ended_seconds = offcore.seconds;
  add_offcore(offcore, round);
  add_migration(round);
  add_routers(round);
  return round;
}

void RoundCollector::add_routers(Round& round) {
  std::uint64_t backpressure = 0, lag_ticks = 0;
  for (const auto& router : crew_->routers()) {
    backpressure += router->backpressure();
    lag_ticks = std::max(lag_ticks, router->lag_ticks());
  }
  round.backpressure = backpressure - backpressure_before_;
  backpressure_before_ = backpressure;
  round.lag_us = static_cast<double>(lag_ticks) * Clock::ns_per_tick() * 1e-3;
}

void RoundCollector::add_offcore(const OffcoreSnapshot& offcore, Round& round) {
  const pmu::OffcoreCounters& counters = crew_->offcore_counters();
  if (before_seconds_ == 0.0) offcore_before_ = crew_->offcore_begin();
  const double passed = std::max(offcore.seconds - before_seconds_, 1e-9);
  runtime::add_offcore(counters.quantities_between(offcore_before_, offcore.counts),
                       counters.bytes_between(offcore_before_, offcore.counts), passed, round);
  offcore_before_ = offcore.counts;
  before_seconds_ = offcore.seconds;
}

void RoundCollector::add_migration(Round& round) {
  constexpr std::uint64_t page_bytes = 4096;
  const Enforcement& enforcement = *crew_->enforcement();
  round.migration = enforcement.report();
  round.schedules = enforcement.schedules();
  round.pending = enforcement.pending();
  const std::uint64_t moved = round.migration.bytes + round.migration.pages * page_bytes;
  round.bytes_moved = moved - moved_before_;
  moved_before_ = moved;
}

}  // namespace pmoss::runtime
