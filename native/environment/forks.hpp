// What the child of a fork() must not wait for: threads that only its parent has.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>

namespace pmoss::environment {

/// The child of a fork() wants something of threads that stayed in its parent.
class ForkedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How many fork() led from the first process that loaded this code to this one.
std::uint32_t forks() noexcept;

/// A mutex, for std::scoped_lock, that does not make a forked child wait for its parent's threads.
///
/// A fork() may come while another thread holds it. In the child that thread is not there, and what
/// the mutex guards may be half changed: lock() throws ForkedError then, each time.
class ForkAwareMutex {
 public:
  void lock();
  void unlock() noexcept;

 private:
  // 0 where it is free, else 1 + forks() of the process whose thread holds it.
  std::atomic<std::uint32_t> holder_{0};
};

}  // namespace pmoss::environment
