// How a worker or a router waits for work.
#pragma once

#include <time.h>

#include "index/backoff.hpp"

namespace pmoss::runtime {

/// As Backoff, but a wait that goes on sleeps now and then.
///
/// A fair scheduler charges a thread for every yield. One that does nothing else for long owes much
/// time: it would not run for seconds once another thread comes to its core. A sleep ends that
/// debt.
class RoleBackoff {
 public:
  explicit RoleBackoff(unsigned spins) noexcept : backoff_(spins), rest_(spins + yields) {}

  /// The wait is over; the next one begins on the core again.
  void reset() noexcept {
    backoff_.reset();
    waited_ = 0;
  }

  void pause() noexcept {
    if (++waited_ < rest_) {
      backoff_.pause();
      return;
    }
    constexpr timespec sleep{0, 20'000};
    static_cast<void>(::nanosleep(&sleep, nullptr));
    waited_ = rest_ - yields;
  }

 private:
  static constexpr unsigned yields = 64;
  Backoff backoff_;
  unsigned rest_;
  unsigned waited_ = 0;
};

/// A role that shares its core with another one gives it away almost at once: what it waits for may
/// be that very thread.
inline RoleBackoff backoff_of_role(bool shares_core) noexcept {
  return RoleBackoff(shares_core ? 8 : 2048);
}

}  // namespace pmoss::runtime
