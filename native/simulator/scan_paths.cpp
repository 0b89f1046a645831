#include "simulator/scan_paths.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "simulator/scan_checks.hpp"
#include "simulator/scan_run.hpp"
#include "workload/joined_thread.hpp"

namespace pmoss::simulator {
namespace {

constexpr double values_per_line = 16.0;

}  // namespace

ScanPaths::ScanPaths(const Machine& machine, const OffloadParameters& parameters)
    : topology_((check(parameters, machine), machine), parameters) {}

double ScanPaths::latency_ns(int execution_node, int storage_node) const {
  return topology_.latency_ns(execution_node, storage_node);
}

/// What the core does with a line: compare its values, mispredict the rarer outcome, write.
double ScanPaths::core_ns_per_line(const Scan& scan) const {
  const OffloadParameters& p = topology_.parameters();
  const Machine& machine = topology_.machine();
  const double share = scan.rows > 0 ? scan.results / scan.rows : 0.0;
  const double cycles =
      values_per_line * (p.cycles_per_value + share * p.cycles_per_result +
                         std::min(share, 1.0 - share) * machine.branch_miss_cycles);
  const double fault_ns =
      values_per_line * share * p.result_bytes / machine.page_bytes * p.page_fault_us * 1e3;
  return cycles / machine.clock_ghz + fault_ns;
}

ScanOutcome ScanPaths::run(const Scan& scan, AccessPath path, std::uint64_t seed) const {
  check(scan, nodes());
  ScanRun simulation(topology_, seed);
  ScanOutcome outcome;
  simulation.add_background(scan);
  simulation.settle(outcome);

  const OffloadParameters& p = topology_.parameters();
  const double line_ns = core_ns_per_line(scan);
  const double begun = simulation.now();
  double ns = p.scan_setup_us * 1e3;
  // An empty table moves nothing, so no engine is set up for it.
  if (path == AccessPath::cpu) {
    ns += simulation.load(scan, line_ns);
  } else if (scan.rows > 0) {
    ns += p.engine_setup_us * 1e3 + simulation.offload(scan, line_ns, path == AccessPath::offload);
  }
  simulation.traffic(outcome, simulation.now() - begun);
  outcome.run_time_us = ns * 1e-3;
  return outcome;
}

void ScanPaths::run_batch(std::span<const Scan> scans, std::span<const std::uint8_t> paths,
                          std::span<const std::uint64_t> seeds, int threads,
                          std::span<ScanOutcome> outcomes) const {
  check_batch(scans, paths, seeds.size(), outcomes.size(), threads, nodes());
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < scans.size(); i = next++) {
        outcomes[i] = run(scans[i], static_cast<AccessPath>(paths[i]), seeds[i]);
      }
    } catch (...) {
      const std::scoped_lock lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<JoinedThread> team;
    for (int t = 1; t < threads; ++t) team.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

double ScanPaths::bandwidth_gb_per_s(int execution_node, int storage_node, int workers) const {
  Scan scan;
  scan.execution_node = execution_node;
  scan.storage_node = storage_node;
  check(scan, nodes());
  check_workers(workers);
  return ScanRun(topology_, 0).bandwidth(execution_node, storage_node, workers);
}

}  // namespace pmoss::simulator
