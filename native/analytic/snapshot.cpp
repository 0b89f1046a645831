// What the counters show of a solved model.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "analytic/model.hpp"
#include "analytic/queueing.hpp"

namespace pmoss::analytic {
namespace {

constexpr double line_bytes = 64.0;
// A fair scheduler lets two runnable threads alternate every few milliseconds.
constexpr double time_slice_us = 3000.0;

}  // namespace

Snapshot Model::snapshot() const {
  if (streams_.empty()) throw std::invalid_argument("no schedule: call place() first");
  Snapshot result;
  result.throughput = throughput_;
  result.slices.assign(instance_.slices(), SliceRates{});
  result.read_gb_per_s.assign(map_.nodes(), 0.0);
  result.write_gb_per_s.assign(map_.nodes(), 0.0);
  result.link_gb_per_s.assign(contention_.routes().links(), 0.0);
  for (Index i = 0; i < streams_.size(); ++i) count_stream(i, result);
  // A preempted thread waits a time slice for every one it runs against its co-tenant.
  for (SliceRates& r : result.slices) {
    r.context_switches = (r.elapsed_us - r.task_clock_us) / time_slice_us;
  }
  add_latencies(result);
  return result;
}

/// Workload queries per microsecond, as a stream's cores complete them.
double Model::rate_of(const Stream& stream) const {
  return 1e3 * stream.copies * contention_.core_rate()[stream.core] /
         streams_.core_share(stream.core);
}

std::vector<double> Model::slice_throughput() const {
  if (streams_.empty()) throw std::invalid_argument("no schedule: call place() first");
  std::vector<double> result(instance_.slices(), 0.0);
  for (Index i = 0; i < streams_.size(); ++i) {
    const Stream& stream = streams_[i];
    if (streams_.core_share(stream.core) == 0.0 || !streams_.begins_query(i)) continue;
    result[stream.executing] +=
        rate_of(stream) * stream.queries * instance_.profiles.share[stream.executing];
  }
  return result;
}

/// Adds what the queries of one stream show to the counters of their slice, and its traffic to
/// those of memories and links.
void Model::count_stream(Index i, Snapshot& result) const {
  const Stream& stream = streams_[i];
  const Demand& demand = caches().demand(i);
  const Index e = stream.executing, c = stream.core, m = stream.node;
  const Index a = map_.node_of_core[c];
  if (streams_.core_share(c) == 0.0) return;
  const SliceProfiles& profiles = instance_.profiles;
  const double rate = rate_of(stream);
  SliceRates& r = result.slices[e];
  double busy_ns = demand.llc_ns + demand.other_ns + demand.walk_ns;
  if (streams_.begins_query(i)) {
    const double queries = rate * stream.queries * profiles.share[e];
    busy_ns += stream.queries * (instance_.computation_ns[e] + instance_.l2_ns[e]);
    r.l1d_misses += queries * (profiles.dependent_touches[e] + profiles.streaming_touches[e]);
    r.cycles_mem_any += rate * stream.queries * instance_.l2_ns[e] * machine_.clock_ghz;
    r.queries += queries;
    r.instructions += queries * profiles.instructions[e];
    r.branch_misses += queries * profiles.branch_misses[e];
  }
  const double dram_ns = demand.dram_ns * contention_.multiplier()[a * map_.nodes() + m];
  const double service_us = rate * (busy_ns + dram_ns) * 1e-3;
  const bool remote = a != m;
  auto [loads, misses, write_misses] = caches().past_sums(i);
  // What is modified elsewhere does not come from memory.
  const double mine = misses > 0.0 ? rate * demand.read_bytes / (line_bytes * misses) : 0.0;
  const double accesses = mine * (misses - write_misses);
  write_misses *= mine;
  loads *= mine;
  r.cycles += service_us * 1e3 * machine_.clock_ghz;
  r.llc_misses += accesses;
  r.memory_accesses += accesses;
  r.memory_misses += remote ? accesses : 0.0;
  r.dtlb_misses += rate * demand.dtlb_misses;
  r.llc_write_misses += write_misses;
  r.memory_write_misses += remote ? write_misses : 0.0;
  r.local_dram += remote ? 0.0 : loads;
  r.remote_dram += remote ? loads : 0.0;
  const double miss_ns = dram_ns + demand.other_ns;
  r.cycles_l3_miss += rate * miss_ns * machine_.clock_ghz;
  r.cycles_mem_any += rate * (miss_ns + demand.llc_ns + demand.walk_ns) * machine_.clock_ghz;
  r.task_clock_us += service_us;
  r.elapsed_us += service_us * contention_.slowdown(c);
  const double read = demand.read_bytes * rate * 1e-3;
  const double written = demand.written_bytes * rate * 1e-3;
  result.read_gb_per_s[m] += read;
  result.write_gb_per_s[m] += written;
  for (const Index link : contention_.routes().between_nodes(m, a)) {
    result.link_gb_per_s[link] += read;
  }
  for (const Index link : contention_.routes().between_nodes(a, m)) {
    result.link_gb_per_s[link] += written;
  }
}

/// How long queries of each core stay, waiting included.
Model::Responses Model::responses() const {
  const bool saturated = load_.kind == Load::Kind::saturated;
  const std::vector<double>& core_rate = contention_.core_rate();
  const auto service_ns = [this](Index core) {
    const double share = demands_.share[core];
    return share > 0.0 ? contention_.total_ns()[core] / share : 0.0;
  };
  Responses result{std::vector<double>(map_.cores(), 0.0), std::vector<double>(map_.cores(), 0.0)};
  for (Index c = 0; c < map_.cores(); ++c) {
    const double service_us = service_ns(c) * 1e-3;
    if (saturated) {
      // As many services one after the other.
      result.mean_us[c] = service_us * load_.outstanding_per_worker;
      result.deviation_us[c] =
          service_us * std::sqrt(load_.outstanding_per_worker *
                                 std::max(0.0, 2.0 * contention_.burst()[c] - 1.0));
    } else if (core_rate[c] > 0.0) {
      const double utilisation = std::min(core_rate[c] * service_ns(c), 1.0 - 1e-9);
      result.mean_us[c] =
          std::min(queue_length(utilisation, contention_.burst()[c]) / core_rate[c] * 1e-3,
                   service_us * load_.outstanding_per_worker * machine_.workers());
    }
  }
  return result;
}

double Model::share_within(double limit_us) const {
  if (streams_.empty()) throw std::invalid_argument("no schedule: call place() first");
  if (!(limit_us > 0.0)) {
    throw std::invalid_argument("limit_us = " + std::to_string(limit_us) + ": must be above 0");
  }
  const Responses times = responses();
  const std::vector<double>& rate = contention_.core_rate();
  return load_.kind == Load::Kind::saturated
             ? normal_mixture_share_within(rate, times.mean_us, times.deviation_us, limit_us)
             : mixture_share_within(rate, times.mean_us, limit_us);
}

void Model::add_latencies(Snapshot& result) const {
  const std::vector<double>& core_rate = contention_.core_rate();
  const Responses times = responses();
  const auto quantile = [&](double q) {
    return load_.kind == Load::Kind::saturated
               ? normal_mixture_quantile(core_rate, times.mean_us, times.deviation_us, q)
               : mixture_quantile(core_rate, times.mean_us, q);
  };
  result.latency_p50_us = quantile(0.50);
  result.latency_p99_us = quantile(0.99);
}

}  // namespace pmoss::analytic
