#include "kinds/load_progress.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

namespace pmoss::kinds {
namespace {

TEST(LoadProgress, MovesInThePassesAndEndsWithAllRecords) {
  std::atomic<std::uint64_t> done{0};
  LoadProgress progress(done, 100'000, {true, true, false, false});
  progress.pass(50'000);
  EXPECT_EQ(done, 1'250u);
  progress.end_pass();
  progress.pass(50'000);
  EXPECT_EQ(done, 3'750u);
  progress.end_pass();
  progress.expect(40'000);
  std::uint64_t before = done;
  for (int i = 0; i < 40; ++i) {
    progress.load(1'000);
    EXPECT_GT(done, before);
    before = done;
  }
  EXPECT_EQ(done, 40'000u);
}

TEST(LoadProgress, ALoaderWithoutRecordsOfItsOwnEndsToo) {
  std::atomic<std::uint64_t> done{0};
  LoadProgress progress(done, 100, {true, false});
  progress.pass(99);
  EXPECT_GT(done, 0u);
  progress.end_pass();
  progress.expect(0);
  EXPECT_EQ(done, 0u);
}

}  // namespace
}  // namespace pmoss::kinds
