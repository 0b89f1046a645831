// The event engine of simulated scans: lines as jobs of the queues on their way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine/loaded_latency.hpp"
#include "simulator/blade_topology.hpp"
#include "simulator/scan_types.hpp"

namespace pmoss::simulator {

/// Flows send units of lines along their routes. A link or an engine serves one unit after the
/// other; a memory answers after its loaded latency.
class LineQueues {
 public:
  explicit LineQueues(const BladeTopology& topology);
  virtual ~LineQueues() = default;
  LineQueues(const LineQueues&) = delete;
  LineQueues& operator=(const LineQueues&) = delete;

  double now() const noexcept { return now_; }
  /// Fills in what the links have carried, over `elapsed_ns`.
  void traffic(ScanOutcome& outcome, double elapsed_ns) const;

 protected:
  /// Timers take the places of hops that no route has.
  static constexpr std::uint16_t issue = 0xffff;  ///< a flow sends its next unit
  static constexpr std::uint16_t wake = 0xfffe;   ///< the scanning core may go on asking
  static constexpr std::uint16_t start = 0xfffd;  ///< a block's copy is asked for

  struct Flow {
    BladeTopology::Route route;
    int unit;         // lines per event
    double window;    // units under way at most
    double pause_ns;  // between two units
    double next_at = 0;
    int counted = 0;  // which counter of the background sees it; 0 for none
  };

  /// Returns the flow's number. `gb_per_s`: what it asks for; 0 for as much as it gets.
  std::size_t add_flow(BladeTopology::Route route, int unit, double lines_under_way,
                       double gb_per_s);
  void push(double at, std::size_t flow, std::uint16_t hop, std::uint32_t unit);
  /// A unit leaves for its memory; the unit's number carries the lines where they vary.
  void send(std::size_t flow, std::uint32_t unit, int lines);
  /// Handles the next event.
  void step();
  /// Handles all events before `end`.
  void run_until(double end);
  /// Sets the clock, and the counters of what links carried back to 0.
  void begin_counting(double now);

  /// A unit has come to the end of its flow's route.
  virtual void arrive(std::size_t flow, std::uint32_t unit) = 0;
  /// A timer, `wake` or `start`, has run out.
  virtual void ring(std::uint16_t timer) = 0;

  const BladeTopology& topology_;
  const OffloadParameters& p_;
  std::vector<Flow> flows_;
  double now_ = 0;

 private:
  struct Event {
    double at;
    std::uint64_t order;  // of making: ties go to the older one
    std::uint32_t unit;
    std::uint16_t flow, hop;
    bool operator<(const Event& other) const noexcept {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  struct Resource {
    double free_at = 0, payload = 0, overhead = 0;
  };

  void pass(const Event& event);
  void close_epoch();

  LoadedLatency curve_;
  std::vector<Resource> resources_;
  std::vector<Event> heap_;
  std::uint64_t made_ = 0;
  double epoch_end_;
  std::vector<double> memory_factor_, memory_bytes_;  // per node: latency / idle latency, traffic
};

}  // namespace pmoss::simulator
