#include "simulator/scan_checks.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace pmoss::simulator {
namespace {

void require(bool right, const std::string& message) {
  if (!right) throw std::invalid_argument(message);
}

std::string described(const char* name, double value) {
  return std::string(name) + " is " + std::to_string(value);
}

}  // namespace

void check(const OffloadParameters& parameters, const Machine& machine) {
  const OffloadParameters& p = parameters;
  const int nodes = machine.nodes();
  require(p.sockets_per_blade > 0 && nodes % p.sockets_per_blade == 0,
          described("sockets_per_blade", p.sockets_per_blade) +
              "; must divide the number of nodes, " + std::to_string(nodes));
  require(machine.sockets() == nodes, "blades are modelled with one node per socket");
  require(p.hubs_per_blade > 0 && p.sockets_per_blade % p.hubs_per_blade == 0,
          described("hubs_per_blade", p.hubs_per_blade) + "; must divide sockets_per_blade");
  const std::pair<const char*, double> positive[] = {
      {"socket_link_gb_per_s", p.socket_link_gb_per_s},
      {"hub_link_gb_per_s", p.hub_link_gb_per_s},
      {"engine_line_ns", p.engine_line_ns}};
  for (const auto& [name, value] : positive) {
    require(std::isfinite(value) && value > 0, described(name, value) + "; must be positive");
  }
  const std::pair<const char*, double> not_negative[] = {
      {"line_overhead_bytes", p.line_overhead_bytes},
      {"request_bytes", p.request_bytes},
      {"lookahead_lines", p.lookahead_lines},
      {"cycles_per_value", p.cycles_per_value},
      {"cycles_per_result", p.cycles_per_result},
      {"result_bytes", p.result_bytes},
      {"page_fault_us", p.page_fault_us},
      {"scan_setup_us", p.scan_setup_us},
      {"engine_setup_us", p.engine_setup_us},
      {"block_overhead_us", p.block_overhead_us},
      {"engine_coherence_ns", p.engine_coherence_ns}};
  for (const auto& [name, value] : not_negative) {
    require(std::isfinite(value) && value >= 0, described(name, value) + "; must not be negative");
  }
  const std::pair<const char*, double> lines[] = {{"prefetch_lines", p.prefetch_lines},
                                                  {"prefetch_page_lines", p.prefetch_page_lines},
                                                  {"block_kib", p.block_kib},
                                                  {"engine_lines", p.engine_lines}};
  for (const auto& [name, value] : lines) {
    require(value >= 1 && value <= 1 << 20 && value == std::floor(value),
            described(name, value) + "; must be a whole number from 1 to 2^20");
  }
  require(p.engine_lines >= copy_unit, described("engine_lines", p.engine_lines) +
                                           "; must be at least " + std::to_string(copy_unit));
}

void check(const Scan& scan, int nodes) {
  for (const int node : {scan.execution_node, scan.storage_node}) {
    require(node >= 0 && node < nodes,
            described("node", node) + "; the machine has nodes 0 to " + std::to_string(nodes - 1));
  }
  require(std::isfinite(scan.rows) && scan.rows >= 0 && scan.rows <= 1e12,
          described("rows", scan.rows) + "; must be from 0 to 10^12");
  require(scan.results >= 0 && scan.results <= scan.rows,
          described("results", scan.results) + "; must be from 0 to rows");
  const std::pair<const char*, std::pair<int, double>> workers[] = {
      {"cpu_workers", {scan.cpu_workers, scan.cpu_worker_gb_per_s}},
      {"engine_workers", {scan.engine_workers, scan.engine_worker_gb_per_s}}};
  for (const auto& [name, asked] : workers) {
    require(asked.first >= 0 && asked.first <= 256,
            described(name, asked.first) + "; must be from 0 to 256");
    require(asked.first == 0 || (std::isfinite(asked.second) && asked.second > 0),
            std::string(name) + ": the GB/s of each must be positive");
  }
}

void check_batch(std::span<const Scan> scans, std::span<const std::uint8_t> paths,
                 std::size_t seeds, std::size_t outcomes, int threads, int nodes) {
  require(paths.size() == scans.size() && seeds == scans.size() && outcomes == scans.size(),
          "scans, paths, seeds and outcomes must be as many");
  require(threads >= 1, described("threads", threads) + "; must be at least 1");
  for (std::size_t i = 0; i < scans.size(); ++i) {
    check(scans[i], nodes);
    require(paths[i] <= static_cast<std::uint8_t>(AccessPath::relaxed),
            described("path", paths[i]) + "; must be 0 (cpu), 1 (offload) or 2 (relaxed)");
  }
}

void check_workers(int workers) {
  require(workers >= 1 && workers <= 256,
          described("workers", workers) + "; must be from 1 to 256");
}

}  // namespace pmoss::simulator
