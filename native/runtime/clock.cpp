#include "runtime/clock.hpp"

#include <limits>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pmoss::runtime {
namespace {

bool invariant_counter() noexcept {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1U << 8)) != 0;
#else
  return false;
#endif
}

struct Instant {
  double ticks;
  double ns;
};

// Both clocks at (nearly) the same moment: of several tries, the one that was disturbed least.
Instant read_both() noexcept {
  Instant best{};
  std::uint64_t narrowest = std::numeric_limits<std::uint64_t>::max();
  for (int attempt = 0; attempt < 16; ++attempt) {
    const std::uint64_t before = Clock::ticks();
    const auto ns = std::chrono::steady_clock::now().time_since_epoch();
    const std::uint64_t after = Clock::ticks();
    if (after - before >= narrowest) continue;
    narrowest = after - before;
    best = {static_cast<double>(before) + static_cast<double>(after - before) / 2,
            std::chrono::duration<double, std::nano>(ns).count()};
  }
  return best;
}

double calibrate() {
  const Instant begin = read_both();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Instant end = read_both();
  return (end.ns - begin.ns) / (end.ticks - begin.ticks);
}

}  // namespace

const bool Clock::has_invariant_counter_ = invariant_counter();

double Clock::ns_per_tick() {
  static const double ratio = calibrate();
  return ratio;
}

}  // namespace pmoss::runtime
