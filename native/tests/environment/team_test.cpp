#include "environment/team.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <memory>
#include <set>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace pmoss::environment {
namespace {

TEST(Team, CoversEveryRangeOnce) {
  for (const int threads : {1, 2, 5}) {
    Team team(threads);
    for (std::size_t count = 0; count < 12; ++count) {
      std::vector<int> visits(count, 0);
      team.run(count, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) ++visits[i];
      });
      EXPECT_EQ(visits, std::vector<int>(count, 1)) << threads << " threads";
    }
  }
}

TEST(Team, WorksInThreadsOfItsOwn) {
  Team team(3);
  std::vector<std::thread::id> ids(3);
  std::latch all(3);  // or a thread that comes late finds its part done
  team.run(3, [&](std::size_t begin, std::size_t) {
    ids[begin] = std::this_thread::get_id();
    all.arrive_and_wait();
  });
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 3U);
  EXPECT_EQ(ids[0], std::this_thread::get_id());
}

TEST(Team, DoesThePartsOfThreadsThatAreIdlyAtWork) {
  std::atomic<int> left = 2;
  std::latch both(3);
  std::atomic<bool> over = false;
  Team team(3, [&] {
    if (left-- <= 0) return false;
    both.count_down();
    over.wait(false);
    return true;
  });
  EXPECT_TRUE(team.has_others());
  team.wake();
  both.arrive_and_wait();
  std::vector<std::thread::id> ids(3);
  team.run(3, [&](std::size_t begin, std::size_t) { ids[begin] = std::this_thread::get_id(); });
  EXPECT_EQ(ids, std::vector(3, std::this_thread::get_id()));
  over = true;
  over.notify_all();
  EXPECT_FALSE(Team(1).has_others());
}

TEST(Team, ThrowsWhatAPartThrowsAndGoesOn) {
  Team team(2);
  const auto fail = [](std::size_t begin, std::size_t) {
    if (begin > 0) throw std::runtime_error("part");
  };
  EXPECT_THROW(team.run(2, fail), std::runtime_error);
  std::atomic<std::size_t> done = 0;
  team.run(1, [&](std::size_t begin, std::size_t end) { done += end - begin; });
  EXPECT_EQ(done, 1U);
}

#if !defined(PMOSS_SANITIZED)
// 0 if all is well; else what is not.
int use_and_replace(std::unique_ptr<Team> team, bool alone) {
  const auto nothing = [](std::size_t, std::size_t) {};
  try {
    team->run(2, nothing);
    if (!alone) return 1;
  } catch (const ForkedError&) {
    if (alone) return 2;
  }
  team = std::make_unique<Team>(2);
  std::atomic<std::size_t> done = 0;
  team->run(4, [&](std::size_t begin, std::size_t end) { done += end - begin; });
  return done == 4 ? 0 : 3;
}

TEST(Team, InAForkedChildItSaysSoAndCanBeReplaced) {
  for (const int threads : {1, 2}) {
    auto team = std::make_unique<Team>(threads);
    team->run(2, [](std::size_t, std::size_t) {});
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);
      _exit(use_and_replace(std::move(team), threads == 1));
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << threads << " threads";
    team->run(2, [](std::size_t, std::size_t) {});
  }
}

// Sanitizers need more addresses than the limit leaves.
TEST(TeamDeathTest, ThrowsWhereTheSystemHasNoMoreThreads) {
  const auto ask_for_too_many = [] {
    const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
    setrlimit(RLIMIT_AS, &limit);
    alarm(60);
    try {
      const Team team(5000);
    } catch (const std::system_error&) {
      _exit(3);
    }
    _exit(0);
  };
  EXPECT_EXIT(ask_for_too_many(), testing::ExitedWithCode(3), "");
}
#endif

TEST(Team, RefusesNoThreads) { EXPECT_THROW(Team(0), std::invalid_argument); }

}  // namespace
}  // namespace pmoss::environment
