// What the threads of one measurement share, and how the caller starts and stops them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

#include "runtime/clock.hpp"

namespace pmoss::runtime {

enum class Phase : std::uint8_t {
  setup,      ///< threads bind themselves and touch their memory
  warmup,     ///< queries flow, nothing is counted
  measuring,  ///< queries flow and are counted
  drain,      ///< no new queries; those in the queues are executed but not counted
  abort,      ///< every thread leaves at once
};

/// The phase is read after every query, so it has a line of its own that is almost never written.
class Control {
 public:
  Phase phase() const noexcept { return phase_.load(std::memory_order_acquire); }

  /// Returns when that was, in ticks of the clock: at once after the store, for what wakes others
  /// may take as long as a time slice.
  std::uint64_t enter(Phase phase) noexcept {
    phase_.store(phase, std::memory_order_release);
    const std::uint64_t now = Clock::ticks();
    phase_.notify_all();
    return now;
  }

  /// Sleeps until this phase, in which the measurement is, is over.
  void wait_while(Phase phase) const noexcept { phase_.wait(phase, std::memory_order_acquire); }

  /// For a thread that is ready: sleeps until the set-up is over.
  Phase wait_for_start() {
    {
      const std::scoped_lock lock(mutex_);
      ++ready_;
    }
    changed_.notify_one();
    phase_.wait(Phase::setup, std::memory_order_acquire);
    return phase();
  }

  /// For a thread that ends; `error` is null unless it failed. Only the first error is kept.
  void finish(std::exception_ptr error) noexcept {
    {
      const std::scoped_lock lock(mutex_);
      ++finished_;
      if (error && !error_) error_ = std::move(error);
    }
    changed_.notify_one();
  }

  enum class Wait : std::uint8_t { done, failed, cancelled };

  // For the caller's thread. Each waits until all threads are ready, until all have ended, or until
  // the time is over. A thread that fails ends the wait, and so does `poll` (which may be empty).
  Wait wait_ready(std::size_t threads, const std::function<bool()>& poll) {
    return wait(std::chrono::steady_clock::time_point::max(), poll,
                [&] { return ready_ + finished_ >= threads; });
  }
  Wait wait_finished(std::size_t threads, const std::function<bool()>& poll) {
    return wait(std::chrono::steady_clock::time_point::max(), poll,
                [&] { return finished_ >= threads; });
  }
  Wait wait_for(std::chrono::duration<double> time, const std::function<bool()>& poll) {
    const auto deadline = std::chrono::steady_clock::now() +
                          std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
    return wait(deadline, poll, [] { return false; });
  }

  std::exception_ptr error() {
    const std::scoped_lock lock(mutex_);
    return error_;
  }

 private:
  template <typename Done>
  Wait wait(std::chrono::steady_clock::time_point deadline, const std::function<bool()>& poll,
            Done done) {
    constexpr std::chrono::milliseconds poll_interval(50);
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        const auto now = std::chrono::steady_clock::now();
        const auto until = std::min(deadline, now + poll_interval);
        changed_.wait_until(lock, until, [&] { return error_ != nullptr || done(); });
        if (error_) return Wait::failed;
        if (done()) return Wait::done;
      }
      if (poll && poll()) return Wait::cancelled;
      if (std::chrono::steady_clock::now() >= deadline) return Wait::done;
    }
  }

  static constexpr std::size_t apart = 128;
  alignas(apart) std::atomic<Phase> phase_{Phase::setup};
  alignas(apart) std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t ready_ = 0;
  std::size_t finished_ = 0;
  std::exception_ptr error_;
};

}  // namespace pmoss::runtime
