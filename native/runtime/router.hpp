// The thread that draws queries and sends each to the worker of its slice.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
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
/// so that routers share nothing.
class Router {
 public:
  struct Settings {
    std::size_t number = 0;
    std::size_t routers = 1;
    LoadKind load = LoadKind::closed;
    std::uint64_t tokens = 0;  ///< closed: this router's part of the queries in flight
    double rate_mqs = 0.0;     ///< open: arrivals of all routers together
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
         std::uint64_t first_insert_record, const RouteBoard& board);

  /// When the load begins, in clock ticks since the origin. Before the first step().
  void begin_at(std::uint64_t ticks) noexcept { planned_ = static_cast<double>(ticks); }

  /// Once all workers have built their queues, and before run().
  void connect(std::vector<Ring*> rings);

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

  /// Totals::backpressure until now. Any thread may ask, as for lag_ticks().
  std::uint64_t backpressure() const noexcept {
    return backpressure_.load(std::memory_order_relaxed);
  }
  /// Open load: how far it was behind its plan when it looked last, in ticks.
  std::uint64_t lag_ticks() const noexcept { return lag_ticks_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t batch = 64;
  struct Staging {
    std::array<Item, batch> items;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  // Each stages what its load asks for now; false if that is nothing.
  bool draw_closed();
  bool draw_open(bool measuring);
  void plan_next_arrival() noexcept;
  void note_lag(std::uint64_t time) noexcept;
  bool draw_saturated();

  /// Takes the current schedule if it has none or an older one.
  void take_routes();
  Operation draw() noexcept;
  std::uint32_t worker_for(const Operation& operation) noexcept;
  void stage(std::uint32_t worker, const Operation& operation, std::uint64_t stamp) noexcept;
  /// Sends what is staged. False if some of it is left because its queue is full.
  bool flush(bool measuring) noexcept;
  std::uint64_t outstanding() noexcept;
  std::uint64_t now() const noexcept;

  Settings settings_;
  std::unique_ptr<QueryStream> stream_;
  Random random_;
  const RouteBoard& board_;
  std::uint64_t version_ = 0;  ///< of routes_ on the board
  Routes routes_;
  std::vector<Ring*> rings_;
  std::vector<std::uint32_t> serving_;  ///< workers that may run some slice's queries
  std::vector<std::uint32_t> reached_;  ///< these, and those that may have earlier
  std::vector<Staging> staging_;
  std::vector<std::size_t> room_;
  bool blocked_ = false;  ///< something is staged that its queue has no room for
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
