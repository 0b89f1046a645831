// Schedules that take effect one after another while queries run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/control.hpp"
#include "runtime/enforcer.hpp"
#include "runtime/measure_options.hpp"
#include "runtime/plan.hpp"
#include "runtime/schedule.hpp"
#include "runtime/sweeping.hpp"

namespace pmoss::runtime {

/// The enforcer's part of the stitcher's work (P-MOSS, section 5). One thread calls step().
///
/// Example: a change 0.2 s into the measuring phase moves slice 3 from CPU 0 on node 0 to CPU 8 on
/// node 1. The first step() after 0.2 s publishes routes that send slice 3's queries to CPU 8. The
/// steps that follow copy slice 3 to node 1 part by part, and settled() is false meanwhile.
class Enforcement {
 public:
  Enforcement(Enforcer enforcer, RouteBoard& board, const Plan& plan);

  /// As soon as its time has come, after those whose time has come before and whatever is planned
  /// for later. Any thread. Plan::validate() has let the schedule pass.
  void add(ScheduleChange change);
  /// All data have been moved to where the current schedule wants them, or cannot be. Changes that
  /// are planned for later do not count. Any thread.
  bool settled() const noexcept { return settled_.load(std::memory_order_acquire); }

  // The stitcher's thread.
  /// False if there was nothing to move.
  bool step(Phase phase);
  /// That of the last change.
  MigrationPace pace() const noexcept { return enforcer_.pace(); }
  std::uint64_t schedules() const noexcept { return schedules_; }  ///< changes that took effect
  const MigrationReport& report() const noexcept { return enforcer_.report(); }
  /// Slices that are still to be moved.
  std::vector<std::uint32_t> pending() const { return enforcer_.pending(); }

  // Only after the last call of step().
  /// Once no reader of the index is left.
  void finish() { enforcer_.finish(); }
  const std::vector<SlicePlacement>& placements() const noexcept { return enforcer_.placements(); }

 private:
  using Time = std::chrono::steady_clock;

  /// The next one whose time has come.
  std::optional<ScheduleChange> next_change();
  // Under the mutex.
  double seconds() const;  ///< since the measuring phase began; 0 before
  bool due() const;

  Enforcer enforcer_;
  RouteBoard& board_;
  const Plan& plan_;
  std::mutex mutex_;
  std::optional<Time::time_point> begin_;
  std::deque<ScheduleChange> changes_;  ///< in the order of their times
  std::uint64_t schedules_ = 0;
  std::atomic<bool> settled_{false};
};

/// The body of the stitcher's thread; it enforces too unless `enforcement` is null.
void run_stitcher(const Control& control, Stitcher& stitcher, Enforcement* enforcement);

}  // namespace pmoss::runtime
