// The thread that executes the queries of some slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <vector>

#include "pmu/counters.hpp"
#include "runtime/control.hpp"
#include "runtime/item.hpp"
#include "runtime/node_memory.hpp"
#include "runtime/served_index.hpp"
#include "runtime/sweeping.hpp"
#include "runtime/window.hpp"
#include "workload/histogram.hpp"

namespace pmoss::runtime {

class Router;

/// Built and run on its own thread, once that is bound to its CPU. Its queues and its counts lie in
/// the memory that it is given (NodeMemory). run() allocates nothing.
///
/// Service time, by example: query A is taken at 100 ticks and completed at 180, B completed at
/// 300, and the queues are found empty at 320. A's slice is charged with 80 ticks and B's with 120.
/// The last 20, for accounting and polling the queues, are B's too. What follows is idle time until
/// the next query is taken.
class Worker {
 public:
  struct Settings {
    std::size_t routers = 1;
    std::size_t queue_items = 4096;
    std::uint32_t slices = 256;
    std::uint32_t window = 100;
    std::uint32_t batch = 1;   ///< queries executed together, 1 .. max_batch
    std::uint64_t origin = 0;  ///< clock ticks that stamps count from
    bool sweeping = true;      ///< somebody takes from stats()
  };

  /// What was counted between the beginning and the end of the measuring phase.
  struct Totals {
    struct Slice {
      std::uint64_t queries = 0;
      /// The time in the index, of taking the query from its queue and of accounting for it; the
      /// windows of counters cover the same time. Waiting, routing, reading the counters and
      /// booking a window are in neither.
      std::uint64_t service_ticks = 0;
    };
    std::pmr::vector<Slice> slices;
    std::pmr::vector<double> counters;  ///< [slices x open events]
    /// [slices x groups]: queries, weighted with the running part
    std::pmr::vector<double> counted;
    Histogram latency;  ///< ticks
    pmu::Snapshot begin;
    pmu::Snapshot end;
    std::uint64_t begin_ticks = 0;
    std::uint64_t end_ticks = 0;
    std::uint64_t idle_ticks = 0;
    std::uint64_t queries = 0;
    std::uint64_t windows = 0;
    int cpu = -1;

    explicit Totals(std::pmr::memory_resource* memory);
  };

  Worker(const Settings& settings, ServedIndex& index, pmu::ThreadCounters counters,
         std::pmr::memory_resource& memory);

  static constexpr std::uint32_t max_batch = 64;
  /// Windows after which the next group of events is counted.
  static constexpr std::uint32_t windows_per_rotation = 16;

  Ring& ring(std::size_t router) noexcept { return rings_[router]; }
  const Totals& totals() const noexcept { return totals_; }
  /// Of the whole run.
  const QueryExecutor::Totals& executed() const noexcept { return executor_->totals(); }
  const pmu::ThreadCounters& counters() const noexcept { return counters_; }
  StatsQueue& stats() noexcept { return stats_; }
  /// After run(): per event, whether it was counted over the whole measuring phase.
  std::vector<pmu::Availability> availability() const;

  /// Executes queries until the drain is over, that is until `routers_running` is 0 and the queues
  /// are empty. Between queries it runs the `hosted` routers, which are on its CPU and have no
  /// thread of their own. It takes each off `routers_running` when that has finished.
  void run(const Control& control, std::atomic<std::size_t>& routers_running,
           std::vector<Router*> hosted);

 private:
  /// True if a hosted router had something to send.
  bool route(const Control& control, std::atomic<std::size_t>& routers_running);
  /// `service_ticks` since the query before was completed.
  void account(const Item& item, std::uint64_t now, std::uint64_t service_ticks) noexcept;
  /// Charges the time since its completion to the last query, if there is one. The time that
  /// follows is not charged until the next query is taken.
  void charge_last_query() noexcept;
  /// Before work that belongs to no slice: charges the last query, and closes an open window.
  void suspend_service() noexcept;
  void enter(Phase phase) noexcept;
  /// From last_ on, and sets it; what the reading takes longer than at rest is no query's time.
  bool read_counters(pmu::Snapshot& snapshot) noexcept;
  void open_window() noexcept;
  void close_window() noexcept;
  void book_window() noexcept;
  void calibrate();

  Settings settings_;
  SliceOfKey slice_of_key_;
  InNodeMemory<QueryExecutor> executor_;
  pmu::ThreadCounters counters_;
  std::pmr::deque<Ring> rings_;
  Totals totals_;
  StatsQueue stats_;

  const Control* control_ = nullptr;  ///< that of run()
  Phase phase_ = Phase::warmup;
  std::vector<Router*> hosted_;          ///< those that have not finished
  std::uint64_t last_ = 0;               ///< ticks: all time before is charged, idle or left out
  Totals::Slice* last_slice_ = nullptr;  ///< of the query completed at last_, if one was

  // The current window of counters. A window ends after `window` queries, or before that when the
  // worker has to wait. After a wait, a worker opens no window until `window` queries have passed
  // since the last one began. That bounds the cost of reading the counters at two reads per
  // `window` queries, also for short busy periods.
  bool window_open_ = false;
  std::uint64_t queries_until_window_ = 0;
  Window window_;
  pmu::Snapshot window_begin_;
  pmu::Snapshot window_end_;
  std::pmr::vector<double> empty_window_;  ///< what reading costs at rest, per open event
  std::uint64_t reading_ticks_ = 0;        ///< how long it takes at rest
  std::uint32_t windows_since_rotation_ = 0;
  std::uint64_t late_ticks_ = 0;     ///< half of what the last reading took longer than at rest
  std::pmr::vector<double> counts_;  ///< of the window that is being booked
  std::pmr::vector<double> weights_;
};

}  // namespace pmoss::runtime
