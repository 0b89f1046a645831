// A time stamp cheap enough to take once per query.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace pmoss::runtime {

/// The CPU's own counter where it runs at one rate on all cores, otherwise the kernel's clock.
class Clock {
 public:
  static std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    if (has_invariant_counter_) [[likely]] {
      return __rdtsc();
    }
#elif defined(__aarch64__)
    std::uint64_t value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#endif
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
  }

  /// Compared with the kernel's clock once, at the first call (about 10 ms).
  static double ns_per_tick();

 private:
  static const bool has_invariant_counter_;
};

}  // namespace pmoss::runtime
