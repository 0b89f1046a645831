// Schedules that take effect one after another while queries run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/control.hpp"
#include "runtime/enforcer.hpp"
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

  /// All data have been moved to where the current schedule wants them, or cannot be. Any thread.
  bool settled() const noexcept { return settled_.load(std::memory_order_acquire); }

  /// False if there was nothing to move.
  bool step(Phase phase);

  // Only after the last call of step().
  /// Once no reader of the index is left.
  void finish() { enforcer_.finish(); }
  std::uint64_t schedules() const noexcept { return next_; }  ///< changes that took effect
  const MigrationReport& report() const noexcept { return enforcer_.report(); }
  const std::vector<SlicePlacement>& placements() const noexcept { return enforcer_.placements(); }

 private:
  using Time = std::chrono::steady_clock;

  void apply_change(double seconds);

  Enforcer enforcer_;
  RouteBoard& board_;
  const Plan& plan_;
  std::optional<Time::time_point> begin_;
  std::size_t next_ = 0;  ///< of the plan's changes
  std::atomic<bool> settled_{false};
};

/// The body of the stitcher's thread; it enforces too unless `enforcement` is null.
void run_stitcher(const Control& control, Stitcher& stitcher, Enforcement* enforcement,
                  MigrationPace pace);

}  // namespace pmoss::runtime
