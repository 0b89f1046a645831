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
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// Calls work(begin, end) for parts of [0, count), one per thread, and returns when all are done.
  /// What a part throws is thrown here, that of the lowest part first. Throws ForkedError in the
  /// child of a fork() if there are threads.
  void run(std::size_t count, const std::function<void(std::size_t, std::size_t)>& work);

 private:
  bool is_forked() const noexcept;
  void dismiss() noexcept;
  void serve(std::size_t part);
  void play(std::size_t part) noexcept;

  std::size_t parts_;
  std::size_t count_ = 0;
  const std::function<void(std::size_t, std::size_t)>* work_ = nullptr;
  std::vector<std::exception_ptr> errors_;  // per part
  std::atomic<std::uint64_t> round_{0};
  std::atomic<std::size_t> busy_{0};
  bool over_ = false;          // published by round_
  const std::uint32_t forks_;  // of the process, when the threads were started
  std::unique_ptr<std::vector<JoinedThread>> threads_;
};

}  // namespace pmoss::environment
