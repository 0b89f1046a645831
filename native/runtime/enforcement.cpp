#include "runtime/enforcement.hpp"

#include <thread>
#include <utility>

namespace pmoss::runtime {

Enforcement::Enforcement(Enforcer enforcer, RouteBoard& board, const Plan& plan)
    : enforcer_(std::move(enforcer)),
      board_(board),
      plan_(plan),
      changes_(plan.options.changes.begin(), plan.options.changes.end()) {
  enforcer_.want(plan.options.schedule);
  settled_.store(enforcer_.settled());
}

void Enforcement::add(ScheduleChange change) {
  const std::scoped_lock lock(mutex_);
  changes_.push_back(std::move(change));
  settled_.store(false, std::memory_order_release);
}

bool Enforcement::step(Phase phase) {
  if (phase == Phase::measuring) {
    if (!begin_) begin_ = Time::now();
    const double seconds = std::chrono::duration<double>(Time::now() - *begin_).count();
    if (const std::optional<ScheduleChange> change = next_change(seconds)) {
      board_.publish(plan_.routes(change->schedule));
      enforcer_.set_pace(change->pace.value_or(plan_.options.migration.pace));
      enforcer_.want(change->schedule);
      ++schedules_;
    }
  }
  const bool moved = enforcer_.step();
  const std::scoped_lock lock(mutex_);
  // A change that came meanwhile is not even begun.
  const bool waits = plan_.options.until_stopped && !changes_.empty();
  settled_.store(enforcer_.settled() && !waits, std::memory_order_release);
  return moved || waits;
}

std::optional<ScheduleChange> Enforcement::next_change(double seconds) {
  const std::scoped_lock lock(mutex_);
  if (changes_.empty() || seconds < changes_.front().after_seconds) return std::nullopt;
  std::optional<ScheduleChange> change = std::move(changes_.front());
  changes_.pop_front();
  return change;
}

void run_stitcher(const Control& control, Stitcher& stitcher, Enforcement* enforcement) {
  for (Phase phase; (phase = control.phase()) < Phase::drain;) {
    stitcher.stitch();
    if (enforcement == nullptr) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else if (!enforcement->step(phase) || enforcement->pace() == MigrationPace::lazy) {
      // A lazy move leaves the machine to the queries for longer than it takes it.
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
}

}  // namespace pmoss::runtime
