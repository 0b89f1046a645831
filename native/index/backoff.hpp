// How a thread waits for another.
#pragma once

#include <thread>

namespace pmoss {

/// Stays on the core while the wait is short, then yields it at each call. The other thread may
/// need this core.
class Backoff {
 public:
  /// `spins` pauses come before the core is given away. The default suits a node's lock.
  explicit Backoff(unsigned spins = 63) noexcept : spins_(spins) {}

  /// The wait is over; the next one begins on the core again.
  void reset() noexcept { waited_ = 0; }

  void pause() noexcept {
    if (waited_ < spins_) {
      ++waited_;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    } else {
      std::this_thread::yield();
    }
  }

 private:
  unsigned spins_;
  unsigned waited_ = 0;
};

}  // namespace pmoss
