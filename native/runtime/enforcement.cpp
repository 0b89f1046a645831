#include "runtime/enforcement.hpp"

#include <thread>
#include <utility>

namespace pmoss::runtime {

Enforcement::Enforcement(Enforcer enforcer, RouteBoard& board, const Plan& plan)
    : enforcer_(std::move(enforcer)), board_(board), plan_(plan) {
  enforcer_.want(plan.options.schedule);
  settled_.store(enforcer_.settled());
}

bool Enforcement::step(Phase phase) {
  if (phase == Phase::measuring) {
    if (!begin_) begin_ = Time::now();
    apply_change(std::chrono::duration<double>(Time::now() - *begin_).count());
  }
  const bool moved = enforcer_.step();
  settled_.store(enforcer_.settled(), std::memory_order_release);
  return moved;
}

void Enforcement::apply_change(double seconds) {
  if (next_ == plan_.options.changes.size()) return;
  const ScheduleChange& change = plan_.options.changes[next_];
  if (seconds < change.after_seconds) return;
  board_.publish(plan_.routes(change.schedule));
  enforcer_.want(change.schedule);
  ++next_;
}

void run_stitcher(const Control& control, Stitcher& stitcher, Enforcement* enforcement,
                  MigrationPace pace) {
  for (Phase phase; (phase = control.phase()) < Phase::drain;) {
    stitcher.stitch();
    if (enforcement == nullptr) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } else if (!enforcement->step(phase) || pace == MigrationPace::lazy) {
      // A lazy move leaves the machine to the queries for longer than it takes it.
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  }
}

}  // namespace pmoss::runtime
