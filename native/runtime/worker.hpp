// The thread that executes the queries of some slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "index/btree.hpp"
#include "pmu/counters.hpp"
#include "runtime/control.hpp"
#include "runtime/histogram.hpp"
#include "runtime/item.hpp"
#include "runtime/spsc_ring.hpp"

namespace pmoss::runtime {

using Ring = SpscRing<Item>;

class Router;

/// Built and run on its own thread, once that is bound to its CPU: all of its memory, its queues
/// included, is then touched first where it is used. run() allocates nothing.
class Worker {
 public:
  struct Settings {
    std::size_t routers = 1;
    std::size_t queue_items = 4096;
    std::uint32_t slices = 256;
    std::uint32_t window = 100;
    std::uint32_t max_scan_length = 0;
    std::uint64_t origin = 0;  ///< clock ticks that stamps count from
    bool shares_core = false;
  };

  /// What was counted between the beginning and the end of the measuring phase.
  struct Totals {
    struct Slice {
      std::uint64_t queries = 0;
      std::uint64_t service_ticks = 0;
    };
    std::vector<Slice> slices;
    std::vector<double> counters;  ///< [slices x open events]
    std::vector<double> counted;   ///< [slices x groups]: queries, weighted with the running part
    Histogram latency;             ///< ticks
    pmu::Snapshot begin;
    pmu::Snapshot end;
    std::uint64_t begin_ticks = 0;
    std::uint64_t end_ticks = 0;
    std::uint64_t idle_ticks = 0;
    std::uint64_t queries = 0;
    std::uint64_t windows = 0;
    // Of the whole run.
    std::uint64_t executed = 0;
    std::uint64_t inserted = 0;
    std::uint64_t not_found = 0;
    std::uint64_t checksum = 0;
    int cpu = -1;
  };

  Worker(const Settings& settings, BTree& index, pmu::ThreadCounters counters);

  Ring& ring(std::size_t router) noexcept { return *rings_[router]; }
  const Totals& totals() const noexcept { return totals_; }
  const pmu::ThreadCounters& counters() const noexcept { return counters_; }

  /// Executes queries until the drain is over, that is until `routers_running` is 0 and the queues
  /// are empty. Between queries it does the work of the routers `aboard`, which have no thread of
  /// their own, and takes each off `routers_running` when it has finished.
  void run(const Control& control, std::atomic<std::size_t>& routers_running,
           std::vector<Router*> aboard);

 private:
  /// True if a router aboard had something to send.
  bool route(const Control& control, std::atomic<std::size_t>& routers_running);
  void execute(const Item& item);
  void account(const Item& item, std::uint64_t service_ticks, std::uint64_t now) noexcept;
  void enter(Phase phase) noexcept;
  void open_window() noexcept;
  void close_window() noexcept;
  void book_window(const pmu::Snapshot& end) noexcept;
  void calibrate();

  Settings settings_;
  BTree& index_;
  pmu::ThreadCounters counters_;
  std::vector<std::unique_ptr<Ring>> rings_;
  std::vector<std::uint64_t> scan_keys_;
  std::vector<std::uint64_t> scan_values_;
  Totals totals_;

  Phase phase_ = Phase::warmup;
  std::vector<Router*> aboard_;  ///< those that have not finished

  // The current window of counters. A window ends after `window` queries, or before that when the
  // worker has to wait. Having waited, a worker does without windows until `window` queries have
  // passed since the last one began, which bounds the cost of reading the counters at two reads per
  // `window` queries however short its busy periods are.
  bool window_open_ = false;
  std::uint64_t queries_until_window_ = 0;
  std::size_t window_size_ = 0;
  std::vector<std::uint32_t> window_slices_;
  pmu::Snapshot window_begin_;
  pmu::Snapshot window_end_;
  std::vector<double> empty_window_;  ///< what reading costs, per open event
  std::vector<double> share_;
  std::vector<double> weight_;
};

}  // namespace pmoss::runtime
