// Threads that are stopped and joined, also when the caller throws.
#pragma once

#include <sys/prctl.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/control.hpp"
#include "runtime/errors.hpp"

namespace pmoss::runtime {

/// True asks to stop; an exception stops as well.
using Poll = std::function<bool()>;

/// Declare it after all that its threads use: it joins them when it dies.
class Threads {
 public:
  explicit Threads(Control& control) : control_(control) {}
  ~Threads() { abort(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  /// `name` explains an exception that leaves `body`.
  template <typename Body>
  void start(std::string name, Body body) {
    threads_.emplace_back([this, name = std::move(name), body = std::move(body)] {
      // Sleeps end when they should, and not up to 50 us later.
      ::prctl(PR_SET_TIMERSLACK, 1UL);
      std::exception_ptr error;
      try {
        try {
          body();
        } catch (const PlacementRefused& cause) {
          throw PlacementRefused(name + ": " + cause.what());
        } catch (const std::exception& cause) {
          std::throw_with_nested(RunnerError(name + ": " + cause.what()));
        } catch (...) {
          // Of a library: ours throw no such thing.
          throw RunnerError(name + ": something was thrown that is no std::exception");
        }
      } catch (...) {
        error = std::current_exception();
      }
      control_.finish(std::move(error));
    });
  }

  /// All threads leave at once, and have ended.
  void abort() {
    control_.enter(Phase::abort);
    threads_.clear();
  }
  /// Throws what a thread threw.
  void check() {
    if (std::exception_ptr error = control_.error()) std::rethrow_exception(error);
  }

  // Each throws what a thread threw, and Cancelled if `poll` says so.
  void wait_ready(const Poll& poll) { check(control_.wait_ready(threads_.size(), poll)); }
  void wait_for(std::chrono::duration<double> time, const Poll& poll) {
    check(control_.wait_for(time, poll));
  }
  /// Until all have ended.
  void join(const Poll& poll) {
    check(control_.wait_finished(threads_.size(), poll));
    threads_.clear();
  }

 private:
  void check(Control::Wait wait) {
    switch (wait) {
      case Control::Wait::done:
        return;
      case Control::Wait::failed:
        std::rethrow_exception(control_.error());
      case Control::Wait::cancelled:
        throw Cancelled("cancelled");
    }
  }

  Control& control_;
  std::vector<std::jthread> threads_;
};

}  // namespace pmoss::runtime
