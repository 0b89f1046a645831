#include "runtime/enforcement.hpp"

#include <algorithm>
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
  // Those whose time has come take effect before it, and those of later times do not hold it up.
  change.after_seconds = std::max(change.after_seconds, seconds());
  const auto later = [](double time, const ScheduleChange& queued) {
    return time < queued.after_seconds;
  };
  changes_.insert(std::upper_bound(changes_.begin(), changes_.end(), change.after_seconds, later),
                  std::move(change));
  settled_.store(false, std::memory_order_release);
}

bool Enforcement::step(Phase phase) {
  if (phase == Phase::measuring) {
    if (const std::optional<ScheduleChange> change = next_change()) {
      board_.publish(plan_.routes(change->schedule));
      enforcer_.set_pace(change->pace.value_or(plan_.options.migration.pace));
      enforcer_.want(change->schedule);
      ++schedules_;
    }
  }
  const bool moved = enforcer_.step();
  const std::scoped_lock lock(mutex_);
  // A change that came meanwhile is not even begun.
  const bool waits = plan_.options.until_stopped && due();
  settled_.store(enforcer_.settled() && !waits, std::memory_order_release);
  return moved || waits;
}

std::optional<ScheduleChange> Enforcement::next_change() {
  const std::scoped_lock lock(mutex_);
  if (!begin_) begin_ = Time::now();
  if (!due()) return std::nullopt;
  std::optional<ScheduleChange> change = std::move(changes_.front());
  changes_.pop_front();
  return change;
}

double Enforcement::seconds() const {
  if (!begin_) return 0.0;
  return std::chrono::duration<double>(Time::now() - *begin_).count();
}

bool Enforcement::due() const {
  return !changes_.empty() && seconds() >= changes_.front().after_seconds;
}

void run_stitcher(const Control& control, Stitcher& stitcher, Enforcement* enforcement) {
  using Time = std::chrono::steady_clock;
  constexpr Time::duration shortest = std::chrono::microseconds(500);
  constexpr Time::duration longest = std::chrono::milliseconds(10);
  constexpr int rest = 4;  // parts of the time in which a lazy move leaves the machine to queries
  for (Phase phase; (phase = control.phase()) < Phase::drain;) {
    stitcher.stitch();
    if (enforcement == nullptr) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    const Time::time_point begin = Time::now();
    const bool moved = enforcement->step(phase);
    if (!moved) {
      std::this_thread::sleep_for(shortest);
    } else if (enforcement->pace() == MigrationPace::lazy) {
      // Into memory that is new, a part takes ten times as long.
      std::this_thread::sleep_for(std::clamp(rest * (Time::now() - begin), shortest, longest));
    }
  }
}

}  // namespace pmoss::runtime
