// Arguments and results of a simulated scan.
#pragma once

#include <cstdint>
#include <vector>

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
  /// Background workers between the same two nodes (or a co-tenant, if they are one): cores that
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

}  // namespace pmoss::simulator
