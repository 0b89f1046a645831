#include "threads/key_value_load.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace pmoss::threads {
namespace {

LoadOptions small(double write_share, bool sequential) {
  LoadOptions options;
  options.threads = 3;
  options.write_share = write_share;
  options.sequential = sequential;
  options.keys = 100;
  options.value_bytes = 4096;
  options.requests = 2000;
  return options;
}

// The name makes ThreadSanitizer run it: see tests/native/test_cpp.py.
TEST(KeyValueLoadConcurrent, AnswersEveryRequestWithTheRightValue) {
  for (const bool sequential : {false, true}) {
    for (const double write_share : {0.0, 0.5, 1.0}) {
      KeyValueLoad load(small(write_share, sequential));
      load.start();
      while (load.running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      load.stop();
      EXPECT_EQ(load.requests(), 2000U);
      EXPECT_EQ(load.damaged(), 0U);
      EXPECT_GT(load.latency_ns(0.99), 0.0);
    }
  }
}

TEST(KeyValueLoadConcurrent, StopsWhenTold) {
  LoadOptions options = small(0.5, false);
  options.requests = 0;
  KeyValueLoad load(options);
  load.start();
  while (load.requests() == 0) std::this_thread::yield();
  load.stop();
  load.stop();
  EXPECT_FALSE(load.running());
}

TEST(KeyValueLoad, RefusesByName) {
  LoadOptions options = small(0.5, false);
  options.threads = 0;
  EXPECT_THROW(KeyValueLoad{options}, std::invalid_argument);
  options = small(1.5, false);
  EXPECT_THROW(KeyValueLoad{options}, std::invalid_argument);
  options = small(0.5, false);
  options.node = 1000;
  EXPECT_THROW(KeyValueLoad{options}, std::system_error);
  options = small(0.5, false);
  options.keys = 10'000'000;
  options.value_bytes = 1'000'000;
  EXPECT_THROW(KeyValueLoad{options}, std::invalid_argument) << "there is not so much memory";
}

}  // namespace
}  // namespace pmoss::threads
