// How a thread waits for work.
#pragma once

#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pmoss::runtime {

/// Spins while the wait is short, then offers the core to others. A thread that shares its core
/// with another role offers it at once: what it waits for may be that very thread.
class Backoff {
 public:
  explicit Backoff(bool shares_core) noexcept : spins_(shares_core ? 8 : 2048) {}

  void reset() noexcept { waited_ = 0; }

  void wait() noexcept {
    if (waited_ < spins_) {
      ++waited_;
      relax();
    } else {
      sched_yield();
    }
  }

 private:
  static void relax() noexcept {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  unsigned spins_;
  unsigned waited_ = 0;
};

}  // namespace pmoss::runtime
