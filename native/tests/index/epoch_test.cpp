// When memory that was unlinked is freed.
#include "index/epoch.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "index/arena.hpp"
#include "tests/index/scale.hpp"

namespace pmoss {
namespace {

using Arenas = std::vector<std::unique_ptr<SliceArena>>;

Arenas some_arenas(std::size_t n) {
  Arenas arenas;
  for (std::size_t i = 0; i < n; ++i) arenas.push_back(std::make_unique<SliceArena>(false));
  return arenas;
}

/// With the kernel's barrier and without it.
class Epochs : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!use_kernel_barrier(GetParam())) GTEST_SKIP() << "the kernel has no such barrier";
  }
  void TearDown() override { use_kernel_barrier(true); }
};

TEST_P(Epochs, KeepsWhatAReaderThatCameBeforeMayHold) {
  RetiredArenas retired;
  Arenas arenas = some_arenas(3);
  const SliceArena* const current = arenas.back().get();
  {
    const EpochGuard before;
    retired.take_all_but_last(arenas);
    ASSERT_EQ(arenas.size(), 1U);
    EXPECT_EQ(arenas.front().get(), current);
    EXPECT_EQ(retired.reclaim(), 2U);
    {
      const EpochGuard nested;
    }
    EXPECT_EQ(retired.reclaim(), 2U);
  }
  EXPECT_EQ(retired.reclaim(), 0U);
}

TEST_P(Epochs, AReaderThatComesLaterHoldsNothingBack) {
  RetiredArenas retired;
  Arenas arenas = some_arenas(2);
  retired.take_all_but_last(arenas);
  const EpochGuard after;
  EXPECT_EQ(retired.reclaim(), 0U);
  arenas.push_back(std::make_unique<SliceArena>(false));
  retired.take_all_but_last(arenas);
  EXPECT_EQ(retired.reclaim(), 1U);
}

TEST_P(Epochs, AThreadThatHasEndedHoldsNothingBack) {
  RetiredArenas retired;
  Arenas arenas = some_arenas(2);
  std::atomic<int> stage{0};
  std::thread reader([&] {
    const EpochGuard guard;
    stage = 1;
    stage.notify_all();
    stage.wait(1);
  });
  stage.wait(0);
  retired.take_all_but_last(arenas);
  EXPECT_EQ(retired.reclaim(), 1U);
  stage = 2;
  stage.notify_all();
  reader.join();
  EXPECT_EQ(retired.reclaim(), 0U);
}

// Freed memory is unmapped: a thread that still reads it ends the process.
TEST_P(Epochs, ConcurrentReadersNeverSeeWhatWasFreed) {
  constexpr std::uint64_t good = 7;
  RetiredArenas retired;
  Arenas arenas = some_arenas(1);
  const auto fresh_word = [&] {
    auto* const word = static_cast<std::uint64_t*>(arenas.back()->allocate(sizeof(std::uint64_t)));
    *word = good;
    return word;
  };
  std::atomic<std::uint64_t*> shared{fresh_word()};
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> spoiled{0};
  std::vector<std::jthread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      while (!over.load(std::memory_order_relaxed)) {
        const EpochGuard guard;
        const auto* const word = shared.load(std::memory_order_acquire);
        if (*word != good) ++spoiled;
      }
    });
  }
  for (std::size_t i = 0; i < testing::scaled(1000); ++i) {
    arenas.push_back(std::make_unique<SliceArena>(false));
    shared.store(fresh_word(), std::memory_order_release);
    retired.take_all_but_last(arenas);
    while (retired.reclaim() > 0) std::this_thread::yield();
  }
  over = true;
  readers.clear();
  EXPECT_EQ(spoiled.load(), 0U);
}

#if !defined(PMOSS_SANITIZED)
TEST_P(Epochs, TheChildOfAForkWaitsForNoThreadOfItsParent) {
  std::atomic<int> stage{0};
  std::thread reader([&] {
    const EpochGuard guard;
    stage = 1;
    stage.notify_all();
    stage.wait(1);
  });
  stage.wait(0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    RetiredArenas retired;
    Arenas arenas = some_arenas(2);
    retired.take_all_but_last(arenas);
    ::_exit(retired.reclaim() == 0 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  stage = 2;
  stage.notify_all();
  reader.join();
}
#endif

INSTANTIATE_TEST_SUITE_P(Barriers, Epochs, ::testing::Bool(), [](const auto& info) {
  return info.param ? "OfTheKernel" : "OfTheReaders";
});

}  // namespace
}  // namespace pmoss
