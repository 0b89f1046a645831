// Table scans on a server whose blades are joined by hubs with a copy engine: a discrete-event
// simulation of what Dreseler et al., Adaptive Access Path Selection for Hardware-Accelerated DRAM
// Loads, measured on an SGI UV 300H.
//
// Every cache line crosses the memories, links and engines on its way as a job of a queue. A core
// that loads by itself keeps a bounded number of lines under way and its prefetcher stops at page
// ends; the engine copies blocks into two local buffers, one of which the core scans meanwhile.
// Background workers are closed loops on the same resources.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace pmoss::simulator {

/// How a scan gets at its data.
enum class AccessPath : std::uint8_t {
  cpu,      ///< the core loads remote lines itself
  offload,  ///< the engine copies blocks, coherently
  relaxed,  ///< the engine copies without looking at the coherence state: results may be wrong
};

/// What a machine description's [offload] table holds; see pmoss_env/machines/offload.py.
struct OffloadParameters {
  int sockets_per_blade = 4;
  int hubs_per_blade = 2;
  double socket_link_gb_per_s = 0;  ///< per direction, all bytes; also from a socket to its hub
  double hub_link_gb_per_s = 0;     ///< per direction, between two hubs
  double line_overhead_bytes = 0;   ///< that travel with a line's 64
  double request_bytes = 0;         ///< that travel the other way

  double prefetch_lines = 0;       ///< lines that one core has under way at most
  double prefetch_page_lines = 0;  ///< the prefetcher stops where a page of so many lines ends
  double lookahead_lines = 0;      ///< of the next page that the core asks for by itself
  double cycles_per_value = 0;     ///< comparing one 32-bit value
  double cycles_per_result = 0;    ///< writing one position
  double result_bytes = 0;         ///< per position
  double page_fault_us = 0;        ///< first touch of a fresh page of results

  double scan_setup_us = 0;        ///< of any scan
  double engine_setup_us = 0;      ///< more, of an offloaded one
  double block_kib = 0;            ///< of each of the two buffers
  double block_overhead_us = 0;    ///< to start a block's copy and to learn that it has ended
  double engine_lines = 0;         ///< lines that the engine has under way for one copy
  double engine_line_ns = 0;       ///< the engine's own time per line
  double engine_coherence_ns = 0;  ///< more per line, for the directory
};

/// One scan of 32-bit values.
struct Scan {
  int execution_node = 0;
  int storage_node = 0;
  double rows = 0;
  double results = 0;  ///< positions that it writes; at most `rows`
  /// Background workers between the same two nodes (or a neighbour, if they are one): cores that
  /// read remote lines, and engine copies to and fro; the GB/s that each asks for.
  int cpu_workers = 0;
  double cpu_worker_gb_per_s = 0;
  int engine_workers = 0;
  double engine_worker_gb_per_s = 0;
};

/// What a link carried.
struct LinkTraffic {
  double payload_gb_per_s = 0;
  double overhead_gb_per_s = 0;
};

struct ScanOutcome {
  double run_time_us = 0;
  /// What a counter reads right before the scan: bytes of lines per second that the background
  /// moved over the links into the scan's path, and through its engine.
  double link_traffic_gb_per_s = 0;
  double engine_traffic_gb_per_s = 0;
  std::vector<LinkTraffic> links;  ///< during the scan, by ScanPaths::link_names()
};

/// The machine, ready to be asked. Immutable: threads may share it.
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

  int nodes() const noexcept { return nodes_; }
  const std::vector<std::string>& link_names() const noexcept { return link_names_; }

 private:
  class Run;

  struct Hop {
    std::size_t resource;
    double ns_per_line;
    double after_ns;      ///< until the line is at the next hop
    std::size_t reverse;  ///< the same link the other way round; itself for what is no link
    bool crosses_link;
  };
  using Route = std::vector<Hop>;

  void check(const Scan& scan) const;
  int blade_of(int node) const { return node / parameters_.sockets_per_blade; }
  int hub_of(int node) const;
  std::size_t link(int from, int to) const;
  std::size_t add_link(int from, int to, const std::string& name, double gb_per_s);
  void add_hop(Route& route, int from, int to, double after_ns) const;
  Route load_route(int execution_node, int storage_node) const;
  Route copy_route(int hub, int storage_node, int target_node, bool coherent) const;
  int background_peer(const Scan& scan) const;

  Machine machine_;
  OffloadParameters parameters_;
  int nodes_ = 0, hubs_ = 0;
  double hop_ns_ = 0;      ///< round trip over one link between sockets
  double hub_hop_ns_ = 0;  ///< round trip between hubs
  // Resources: memories, engines, then links.
  std::vector<std::string> link_names_;
  std::vector<double> link_gb_per_s_;
  std::vector<int> link_of_;  ///< [from][to] over sockets and hubs; -1 for none
};

}  // namespace pmoss::simulator
