// What the counters show of a solved model.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "analytic/model.hpp"
#include "analytic/queueing.hpp"

namespace pmoss::analytic {
namespace {

constexpr double line_bytes = 64.0;
// A fair scheduler lets two runnable threads alternate every few milliseconds.
constexpr double time_slice_us = 3000.0;

}  // namespace

Snapshot Model::snapshot() const {
  const auto n = static_cast<std::size_t>(profiles_.slices);
  const auto cores = static_cast<std::size_t>(machine_.cores());
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  if (streams_.empty()) throw std::invalid_argument("no schedule: call place() first");
  const std::vector<double>& core_rate = contention_.core_rate();
  const std::vector<double>& service_ns = contention_.service_ns();
  Snapshot result;
  result.throughput = throughput_;
  result.slices.assign(n, SliceRates{});
  result.read_gb_per_s.assign(nodes, 0.0);
  result.write_gb_per_s.assign(nodes, 0.0);
  result.link_gb_per_s.assign(contention_.routes().links(), 0.0);
  const auto carry = [&](std::size_t from_node, std::size_t to_node, double gb_per_s) {
    for (const std::uint32_t link : contention_.routes().between_nodes(from_node, to_node)) {
      result.link_gb_per_s[link] += gb_per_s;
    }
  };
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Stream& stream = streams_[i];
    const Demand& demand = demand_[i];
    const auto e = static_cast<std::size_t>(stream.executing);
    const auto c = static_cast<std::size_t>(stream.core);
    const auto m = static_cast<std::size_t>(stream.node);
    const auto a = static_cast<std::size_t>(machine_.node_of_core[c]);
    if (core_share_[c] == 0.0) continue;
    // Workload queries per microsecond, as this stream's cores complete them.
    const double rate = 1e3 * stream.copies * core_rate[c] / core_share_[c];
    SliceRates& r = result.slices[e];
    double busy_ns = demand.llc_ns + demand.other_ns + demand.walk_ns;
    if (begins_query(i)) {
      const double queries = rate * stream.queries * profiles_.share[e];
      busy_ns += stream.queries * (computation_ns_[e] + l2_ns_[e]);
      r.l1d_misses += queries * (profiles_.dependent_touches[e] + profiles_.streaming_touches[e]);
      r.cycles_mem_any += rate * stream.queries * l2_ns_[e] * machine_.clock_ghz;
      r.queries += queries;
      r.instructions += queries * profiles_.instructions[e];
      r.branch_misses += queries * profiles_.branch_misses[e];
    }
    const double dram_ns = demand.dram_ns * contention_.multiplier()[a * nodes + m];
    const double service_us = rate * (busy_ns + dram_ns) * 1e-3;
    const bool remote = a != m;
    double loads = 0.0, misses = 0.0, write_misses = 0.0;
    const std::size_t first = row_[static_cast<std::size_t>(stream.touched)];
    for (std::size_t k = 0; k < first_state_[i + 1] - first_state_[i]; ++k) {
      const double past = past_llc(i, k);
      loads += dependent_[first + k] * past;
      misses += touches_[first + k] * past;
      write_misses += touches_[first + k] * past * dirty_share_[first + k];
    }
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
    carry(m, a, read);
    carry(a, m, written);
  }
  // A preempted thread waits a time slice for every one it runs against its neighbour.
  for (SliceRates& r : result.slices) {
    r.context_switches = (r.elapsed_us - r.task_clock_us) / time_slice_us;
  }

  std::vector<double> response(cores, 0.0), deviation(cores, 0.0);
  for (std::size_t c = 0; c < cores; ++c) {
    const double service_us = service_ns[c] * 1e-3;
    if (load_.kind == Load::Kind::saturated) {
      // As many services one after the other.
      response[c] = service_us * load_.outstanding_per_worker;
      deviation[c] = service_us * std::sqrt(load_.outstanding_per_worker *
                                            std::max(0.0, 2.0 * contention_.burst()[c] - 1.0));
    } else if (core_rate[c] > 0.0) {
      const double utilisation = std::min(core_rate[c] * service_ns[c], 1.0 - 1e-9);
      response[c] =
          std::min(queue_length(utilisation, contention_.burst()[c]) / core_rate[c] * 1e-3,
                   service_us * load_.outstanding_per_worker * machine_.workers());
    }
  }
  const auto quantile = [&](double q) {
    return load_.kind == Load::Kind::saturated
               ? normal_mixture_quantile(core_rate, response, deviation, q)
               : mixture_quantile(core_rate, response, q);
  };
  result.latency_p50_us = quantile(0.50);
  result.latency_p99_us = quantile(0.99);
  return result;
}

}  // namespace pmoss::analytic
