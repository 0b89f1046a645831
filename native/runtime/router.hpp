// The thread that draws queries and sends each to the worker of its slice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/backoff.hpp"
#include "runtime/control.hpp"
#include "runtime/runner.hpp"
#include "runtime/worker.hpp"
#include "workload/generator.hpp"
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
    std::uint64_t tokens = 0;          ///< closed: this router's part of the queries in flight
    double ticks_per_arrival = 0.0;    ///< open: of this router
    double first_arrival_ticks = 0.0;  ///< open: after the start, so that routers take turns
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
    int cpu = -1;
  };

  Router(const Settings& settings, const WorkloadSpec& spec, std::uint64_t seed,
         std::uint64_t first_insert_record, std::vector<std::uint32_t> worker_of_slice);

  /// Once all workers have built their queues, and before run().
  void connect(std::vector<Ring*> rings);

  /// Sends queries until the drain begins.
  void run(const Control& control);

  const Totals& totals() const noexcept { return totals_; }

 private:
  static constexpr std::size_t batch = 64;
  struct Staging {
    std::array<Item, batch> items;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  void run_closed(const Control& control);
  void run_open(const Control& control);
  void run_saturated(const Control& control);

  Operation draw() noexcept;
  std::uint32_t worker_for(const Operation& operation) noexcept;
  void stage(std::uint32_t worker, const Operation& operation, std::uint64_t stamp) noexcept;
  /// Sends what is staged, waiting for room where a queue is full. False when told to abort.
  bool flush(const Control& control) noexcept;
  std::uint64_t outstanding() noexcept;
  std::uint64_t now() const noexcept;

  Settings settings_;
  OperationGenerator generator_;
  Random random_;
  std::vector<std::uint32_t> worker_of_slice_;
  std::uint64_t key_spacing_;
  std::vector<Ring*> rings_;
  std::vector<std::uint32_t> active_;  ///< workers that serve at least one slice
  std::vector<Staging> staging_;
  std::vector<std::size_t> room_;
  Backoff backoff_;
  Totals totals_;
};

}  // namespace pmoss::runtime
