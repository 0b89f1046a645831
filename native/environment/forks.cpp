#include "environment/forks.hpp"

#include "index/at_fork.hpp"

namespace pmoss::environment {
namespace {

constinit std::atomic<std::uint32_t> count{0};

[[maybe_unused]] const bool counting = [] {
  at_fork_in_child([] { ++count; });
  return true;
}();

}  // namespace

std::uint32_t forks() noexcept { return count; }

void ForkAwareMutex::lock() {
  const std::uint32_t mine = forks() + 1;
  for (;;) {
    std::uint32_t holder = 0;
    if (holder_.compare_exchange_strong(holder, mine, std::memory_order_acquire)) return;
    if (holder != mine) {
      throw ForkedError(
          "a thread was using it when this process was forked, and that thread stayed in the "
          "parent; make it anew in this process");
    }
    holder_.wait(holder);
  }
}

void ForkAwareMutex::unlock() noexcept {
  holder_.store(0, std::memory_order_release);
  holder_.notify_one();
}

}  // namespace pmoss::environment
