// std::jthread without a way to stop it. The standard library of macOS has none.
#pragma once

#include <thread>
#include <utility>

namespace pmoss {

/// A thread that is joined where it is destroyed.
class JoinedThread {
 public:
  template <class Work>
  explicit JoinedThread(Work&& work) : thread_(std::forward<Work>(work)) {}
  ~JoinedThread() {
    if (thread_.joinable()) thread_.join();
  }
  JoinedThread(JoinedThread&&) noexcept = default;
  JoinedThread& operator=(JoinedThread&&) = delete;

 private:
  std::thread thread_;
};

}  // namespace pmoss
