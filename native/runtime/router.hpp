// The thread that draws queries and sends each to the worker of its slice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <vector>

#include "runtime/control.hpp"
#include "runtime/measure_options.hpp"
#include "runtime/schedule.hpp"
#include "runtime/served_index.hpp"
#include "runtime/worker.hpp"
#include "workload/arrivals.hpp"
#include "workload/random.hpp"

namespace pmoss::runtime {

/// Has its own copy of the schedule, its own stream of queries and its own queue to every worker,
/// so that routers share nothing. Built on the thread that runs it, in memory of that thread's
/// node.
///
/// A step costs the same for any number of workers. It looks at few queues, the next one at the
/// following ones, and it sends to those workers alone for which it has drawn queries.
class alignas(128) Router {
 public:
  struct Settings {
    std::size_t number = 0;
    std::size_t routers = 1;
    LoadKind load = LoadKind::closed;
    std::uint64_t tokens = 0;  ///< closed: this router's part of the queries in flight
    double rate_mqs = 0.0;     ///< open: arrivals of all routers together
    /// Open: queries that may wait for room in one worker's queue before the others are held up.
    /// Under a closed load all tokens may.
    std::size_t waiting_room = 0;
    std::uint64_t origin = 0;
    bool shares_core = false;
  };

  struct Totals {
    std::uint64_t issued = 0;
    std::uint64_t insert_draws = 0;
    std::uint64_t backpressure = 0;
    std::uint64_t skipped = 0;
    std::uint64_t max_outstanding = 0;
    std::uint64_t max_lag_ticks = 0;
    std::uint64_t schedules = 0;  ///< that took effect while it ran
    int cpu = -1;
  };

  /// `first_insert_record`: of all routers. Router i of n inserts every n-th record from the i-th
  /// on.
  Router(const Settings& settings, const ServedIndex& index, std::uint64_t seed,
         std::uint64_t first_insert_record, const RouteBoard& board,
         std::pmr::memory_resource& memory);

  /// When the load begins, in clock ticks since the origin. Before the first step().
  void begin_at(std::uint64_t ticks) noexcept { planned_ = static_cast<double>(ticks); }

  /// Once all workers have built their queues, and before run().
  void connect(const std::vector<Ring*>& rings);

  /// Sends queries until the drain begins: a router with a thread of its own.
  void run(const Control& control);

  enum class Step : std::uint8_t {
    sent,      ///< there may be more to do at once
    waiting,   ///< nothing to do for now
    finished,  ///< the drain has begun and all that was drawn is sent
  };
  /// Draws and sends at most one batch, and never waits. A worker that shares its core with this
  /// router calls it between queries: two threads on one core would hand it over once per batch,
  /// which costs more than the routing.
  Step step(const Control& control);

  /// After run().
  const Totals& totals() const noexcept { return totals_; }

  /// Open load, after run(): the first arrival of its plan that it has not drawn, in ticks since
  /// the origin.
  double next_arrival_ticks() const noexcept { return planned_; }

  /// Totals::backpressure until now. Any thread may ask, as for lag_ticks().
  std::uint64_t backpressure() const noexcept {
    return backpressure_.load(std::memory_order_relaxed);
  }
  /// Open load: how far it was behind its plan when it looked last, in ticks.
  std::uint64_t lag_ticks() const noexcept { return lag_ticks_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t batch = 64;
  /// Queues whose heads a step looks at, at most. Each head is on a line that its worker writes.
  static constexpr std::size_t looks = 16;
  /// A worker's queue, and what is drawn for it and waits for room.
  struct Lane {
    Ring* ring;
    bool listed = false;    ///< in filled_
    std::size_t begin = 0;  ///< of what waits
    std::pmr::vector<Item> items;

    std::size_t waiting() const noexcept { return items.size() - begin; }
  };

  // Each stages what its load asks for now.
  void draw_closed();
  void draw_open(bool measuring);
  void plan_next_arrival() noexcept;
  void note_lag(std::uint64_t time) noexcept;
  void draw_saturated();

  /// Takes the current schedule if it has none or an older one.
  void take_routes();
  Operation draw() noexcept;
  std::uint32_t worker_for(const Operation& operation) noexcept;
  void stage(std::uint32_t worker, const Operation& operation, std::uint64_t stamp);
  /// Sends what is staged, as far as there is room. False if the rest holds others up.
  bool flush(bool measuring) noexcept;
  /// Puts what waits into the queue, as far as there is room.
  static void make_up(Lane& lane) noexcept;
  /// Closed load: takes back the tokens of queries that are done, of a batch or of some queues.
  void collect_tokens() noexcept;
  std::uint64_t now() const noexcept;

  Settings settings_;
  std::unique_ptr<QueryStream> stream_;
  Random random_;
  const RouteBoard& board_;
  std::uint64_t version_ = 0;  ///< of routes_ on the board
  Routes routes_;
  std::vector<std::uint32_t> serving_;      ///< workers that may run some slice's queries
  std::vector<std::uint32_t> reached_;      ///< these, and those that may have earlier
  std::pmr::vector<Lane> lanes_;            ///< [workers]
  std::pmr::vector<std::uint32_t> filled_;  ///< lanes in which something is not sent
  std::pmr::vector<std::size_t> room_;
  std::uint64_t tokens_;       ///< closed: of the settings', those that are not in flight
  std::size_t next_look_ = 0;  ///< in reached_
  bool blocked_ = false;       ///< more waits for some worker than may
  // Open load: n independent Poisson streams of a rate/n are one of the whole rate. A router that
  // drew the others' arrivals, too, would make all of them together no faster than one.
  PoissonArrivals arrivals_;
  double planned_ = 0.0;   ///< its next arrival, in ticks; the load's beginning before the first
  bool planning_ = false;  ///< whether the first arrival is drawn
  Totals totals_;
  std::atomic<std::uint64_t> backpressure_ = 0;
  std::atomic<std::uint64_t> lag_ticks_ = 0;
};

}  // namespace pmoss::runtime
