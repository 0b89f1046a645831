#include "environment/forks.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <thread>
#include <vector>

namespace pmoss::environment {
namespace {

TEST(ForkAwareMutexConcurrent, ThreadsTakeTurns) {
  constexpr int threads = 4;
  constexpr int turns = 5'000;
  ForkAwareMutex mutex;
  int count = 0;
  {
    std::vector<std::jthread> counting;
    for (int i = 0; i < threads; ++i) {
      counting.emplace_back([&] {
        for (int turn = 0; turn < turns; ++turn) {
          const std::scoped_lock lock(mutex);
          ++count;
        }
      });
    }
  }
  EXPECT_EQ(count, threads * turns);
}

#if !defined(PMOSS_SANITIZED)
/// 0 if all is well; else what is not.
int use_in_child(ForkAwareMutex& held, ForkAwareMutex& free) {
  // Not only once: what it guards stays half changed.
  for (int time = 0; time < 2; ++time) {
    try {
      const std::scoped_lock lock(held);
      return 1;
    } catch (const ForkedError&) {
      continue;
    }
  }
  for (int time = 0; time < 2; ++time) const std::scoped_lock lock(free);
  return 0;
}

TEST(ForkAwareMutex, AForkedChildDoesNotWaitForAThreadOfItsParent) {
  ForkAwareMutex held;
  ForkAwareMutex free;
  const std::uint32_t before = forks();
  const std::scoped_lock lock(held);
  pid_t child = -1;
  // The thread that forks is not the one that holds it.
  std::jthread([&] {
    child = ::fork();
    if (child == 0) {
      alarm(60);
      _exit(forks() == before + 1 ? use_in_child(held, free) : 2);
    }
  }).join();
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(forks(), before);
}
#endif

}  // namespace
}  // namespace pmoss::environment
