// A few threads that divide a range among them, many times over.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "environment/forks.hpp"
#include "workload/joined_thread.hpp"

namespace pmoss::environment {

class Team {
 public:
  /// The caller of run() is one of the `threads`; throws std::invalid_argument below 1, and
  /// std::system_error where the system has no more threads.
  ///
  /// After wake() the others call `idle`, which must not throw, until it says that nothing is left.
  /// Between two calls they look whether run() needs them.
  explicit Team(int threads, std::function<bool()> idle = {});
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Calls work(begin, end) for parts of [0, count), one per thread, and returns when all are done.
  /// The caller does the part of a thread that is not there when its own is done. What a part
  /// throws is thrown here, that of the lowest part first. Throws ForkedError in the child of a
  /// fork() if there are threads.
  void run(std::size_t count, const std::function<void(std::size_t, std::size_t)>& work);

  /// Whether there are threads beside the caller.
  bool has_others() const noexcept { return parts_ > 1; }
  /// Has the other threads call `idle`; returns at once.
  void wake() noexcept;
  /// Throws ForkedError in the child of a fork() if there are threads.
  void check_forks() const;

 private:
  bool is_forked() const noexcept;
  void dismiss() noexcept;
  void serve(std::size_t part);
  bool claim(std::size_t part) noexcept;
  void play(std::size_t part) noexcept;

  std::size_t parts_;
  std::function<bool()> idle_;
  std::size_t count_ = 0;
  const std::function<void(std::size_t, std::size_t)>* work_ = nullptr;
  std::vector<std::exception_ptr> errors_;  // per part
  std::atomic<std::uint64_t> round_{0};
  std::vector<std::atomic<std::uint64_t>> claimed_;  // per part: the latest round in which it was
  std::atomic<std::uint64_t> bell_{0};               // another number calls the threads
  std::atomic<std::size_t> busy_{0};
  std::atomic<bool> over_{false};
  const std::uint32_t forks_;  // of the process, when the threads were started
  std::unique_ptr<std::vector<JoinedThread>> threads_;
};

}  // namespace pmoss::environment
