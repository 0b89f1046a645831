// One simulated scan: the core that scans, the engine that copies for it, and the background.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "simulator/line_queues.hpp"
#include "workload/random.hpp"

namespace pmoss::simulator {

class ScanRun final : public LineQueues {
 public:
  ScanRun(const BladeTopology& topology, std::uint64_t seed)
      : LineQueues(topology), random_(seed) {}

  /// Starts the background workers of a scan.
  void add_background(const Scan& scan);
  /// Runs the background alone and reads its counters.
  void settle(ScanOutcome& outcome);
  /// Nanoseconds until a core has loaded and scanned all lines, each of which takes it `line_ns`.
  double load(const Scan& scan, double line_ns);
  /// The same where the engine copies blocks and the core scans these.
  double offload(const Scan& scan, double line_ns, bool coherent);
  /// GB/s that so many cores get together.
  double bandwidth(int execution_node, int storage_node, int workers);

 private:
  static constexpr std::size_t no_flow = std::numeric_limits<std::size_t>::max();

  /// The lines that the scanning core loads.
  struct Stream {
    std::size_t flow = no_flow;
    std::uint64_t lines = 0;
    double line_ns = 0;
    double core_free = 0;
    std::uint64_t issued = 0, consumed = 0;
    double under_way = 0;
    bool waking = false;
  };
  /// A block that the engine copies.
  struct Copy {
    std::uint64_t lines, issued, arrived;
    double asked_at;
    double done_at = 0;
  };

  void arrive(std::size_t flow, std::uint32_t unit) override;
  void ring(std::uint16_t timer) override;
  void issue_lines();
  void consume(std::uint32_t line);
  void ask_for_copy(std::uint64_t lines, double at);
  void start_copies();
  void copied(std::uint32_t number);

  Random random_;
  std::array<double, 3> moved_{};  // bytes, by Flow::counted
  Stream stream_;
  std::vector<double> finish_;         // per line: when the core is done with it
  std::vector<std::uint8_t> arrived_;  // per line
  std::size_t copy_flow_ = no_flow;
  std::vector<Copy> copies_;
  std::size_t copying_ = 0;  // the first block with lines that have not been sent
  double units_under_way_ = 0;
};

}  // namespace pmoss::simulator
