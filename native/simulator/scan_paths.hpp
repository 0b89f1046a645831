// Table scans on a server whose blades are joined by hubs with a copy engine: a discrete-event
// simulation of what Dreseler et al., Adaptive Access Path Selection for Hardware-Accelerated DRAM
// Loads, measured on an SGI UV 300H.
//
// Every cache line crosses the memories, links and engines on its way as a job of a queue. A core
// that loads by itself keeps a bounded number of lines in flight, and its prefetcher stops at page
// ends. The engine copies blocks into two local buffers; the core scans one while the other is
// filled. Background workers are closed loops on the same resources.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "simulator/blade_topology.hpp"
#include "simulator/scan_types.hpp"

namespace pmoss::simulator {

/// The machine on which scans are simulated. Immutable: threads may share it.
class ScanPaths {
 public:
  /// Throws std::invalid_argument that names the value and what would be right.
  ScanPaths(const Machine& machine, const OffloadParameters& parameters);

  /// The same arguments give the same bits. Throws std::invalid_argument for an impossible scan.
  ScanOutcome run(const Scan& scan, AccessPath path, std::uint64_t seed) const;

  /// Many scans, in up to `threads` threads; the same bits for any number of them.
  void run_batch(std::span<const Scan> scans, std::span<const std::uint8_t> paths,
                 std::span<const std::uint64_t> seeds, int threads,
                 std::span<ScanOutcome> outcomes) const;

  /// GB/s that `workers` cores of one node get together out of the memory of another.
  double bandwidth_gb_per_s(int execution_node, int storage_node, int workers) const;

  /// Idle latency of memory in ns: the feature "data locality".
  double latency_ns(int execution_node, int storage_node) const;

  int nodes() const noexcept { return topology_.nodes(); }
  const std::vector<std::string>& link_names() const noexcept { return topology_.link_names(); }

 private:
  double core_ns_per_line(const Scan& scan) const;

  BladeTopology topology_;
};

}  // namespace pmoss::simulator
