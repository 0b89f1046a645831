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
#include "runtime/tally.hpp"
#include "runtime/window.hpp"

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
    std::uint32_t window = 100;  ///< least queries of a window of counters; 0: no windows
    std::uint32_t batch = 1;     ///< queries executed together, 1 .. max_batch
    std::uint64_t origin = 0;    ///< clock ticks that stamps count from
  };

  Worker(const Settings& settings, ServedIndex& index, pmu::ThreadCounters counters,
         std::pmr::memory_resource& memory);

  static constexpr std::uint32_t max_batch = 64;
  /// A window lasts at least so many times as long as reading the counters and booking. That bounds
  /// the cost of counting, however fast the queries and however slow the kernel.
  static constexpr double costs_per_window = 256.0;
  /// The same from the beginning of a window that a wait has ended to that of the next one.
  static constexpr double costs_between = 64.0;
  /// Windows after which the next group of events is counted.
  static constexpr std::uint32_t windows_per_rotation = 4;

  Ring& ring(std::size_t router) noexcept { return rings_[router]; }
  /// Of the whole run.
  const QueryExecutor::Totals& executed() const noexcept { return executor_->totals(); }
  const pmu::ThreadCounters& counters() const noexcept { return counters_; }
  TallyExchange& tallies() noexcept { return tallies_; }
  const TallyExchange& tallies() const noexcept { return tallies_; }
  /// Per event, whether it was counted in all of a tally's time.
  std::vector<pmu::Availability> availability(const Tally& tally) const;

  /// Executes queries until the drain is over, that is until `routers_running` is 0 and the queues
  /// are empty. Between queries it runs the `hosted` routers, which are on its CPU and have no
  /// thread of their own. It takes each off `routers_running` when that has finished.
  void run(const Control& control, std::atomic<std::size_t>& routers_running,
           std::vector<Router*> hosted);

  /// After run(): response times, in ticks, of the queries that the measuring phase left behind.
  const Histogram& late() const noexcept { return late_; }
  /// When the last of these was done, in ticks since the origin; 0 without any.
  std::uint64_t late_ticks_end() const noexcept { return late_end_; }

 private:
  /// True if a hosted router had something to send.
  bool route(const Control& control, std::atomic<std::size_t>& routers_running);
  /// `service_ticks` since the query before was completed.
  void account(const Item& item, std::uint64_t now, std::uint64_t service_ticks) noexcept;
  /// A batch that was sent before the measuring phase ended, and was done after it.
  void account_late(const Ring& ring, std::size_t count, std::uint64_t now) noexcept;
  /// Of a batch that was accounted for, with the time of a query.
  void tell_window(const Ring& ring, std::size_t count, std::uint64_t ticks) noexcept;
  /// Charges the time since its completion to the last query, if there is one. The time that
  /// follows is not charged until the next query is taken.
  void charge_last_query() noexcept;
  /// Before work that belongs to no slice: charges the last query, and closes an open window.
  void suspend_service() noexcept;
  void enter(Phase phase) noexcept;
  /// The counts so far go to the sweeper, which has asked for them.
  void hand_over(bool idle) noexcept;
  /// A part of the measuring phase ends here.
  void end_part() noexcept;
  /// From last_ on, and sets it; what the reading takes longer than at rest is no query's time.
  bool read_counters(pmu::Snapshot& snapshot) noexcept;
  /// The last window began `window` queries ago, and it is so late.
  bool window_due(std::uint64_t ticks) const noexcept;
  void begin_window() noexcept;
  void open_window() noexcept;
  void close_window() noexcept;
  void book_window() noexcept;
  /// Reading and booking took so long this time.
  void learn_cost(std::uint64_t ticks) noexcept;
  void calibrate();

  Settings settings_;
  SliceOfKey slice_of_key_;
  InNodeMemory<QueryExecutor> executor_;
  pmu::ThreadCounters counters_;
  std::pmr::deque<Ring> rings_;
  TallyExchange tallies_;
  Tally* tally_;  ///< the current one
  Histogram late_;
  std::uint64_t late_end_ = 0;

  const Control* control_ = nullptr;  ///< that of run()
  Phase phase_ = Phase::warmup;
  std::vector<Router*> hosted_;         ///< those that have not finished
  std::uint64_t part_begin_ = 0;        ///< ticks: when the current tally began
  std::uint64_t last_ = 0;              ///< ticks: all time before is charged, idle or left out
  Tally::Slice* last_slice_ = nullptr;  ///< of the query completed at last_, if one was

  // The current window of counters. It ends after `window` queries that take as long as
  // costs_per_window, or before that when the worker has to wait. After a wait, a worker opens no
  // window until `window` queries and costs_between have passed since the last one began. So a busy
  // worker reads once per costs_per_window. One with short busy periods reads twice per
  // costs_between.
  bool windows_;
  bool window_open_ = false;
  std::uint64_t window_queries_ = 0;      ///< of the tally, when the window began
  std::uint64_t window_due_queries_ = 0;  ///< of the tally
  std::uint64_t window_end_ticks_ = 0;    ///< not before that
  std::uint64_t next_window_ticks_ = 0;   ///< after a wait, not before that
  Window window_;
  pmu::Snapshot window_begin_;
  pmu::Snapshot window_end_;
  std::pmr::vector<double> empty_window_;  ///< what reading costs at rest, per open event
  std::uint64_t reading_ticks_ = 0;        ///< how long it takes at rest
  double window_cost_ = 0.0;               ///< ticks: reading and booking, of late
  std::uint32_t windows_since_rotation_ = 0;
  std::uint64_t late_ticks_ = 0;     ///< half of what the last reading took longer than at rest
  std::pmr::vector<double> counts_;  ///< of the window that is being booked
  std::pmr::vector<std::uint8_t> of_waits_;
  std::pmr::vector<double> weights_;
  std::size_t task_clock_ = pmu::event_count;  ///< in events(); not there if it does not count
  double processor_ticks_per_ns_ = 0.0;
};

}  // namespace pmoss::runtime
