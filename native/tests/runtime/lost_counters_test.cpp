// Measurements in which some workers cannot count.
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "tests/runtime/small_runner.hpp"

namespace pmoss::runtime {
namespace {

class RunnerCounters : public testing::Test {
 protected:
  RunnerCounters() { runner_->load(); }

  static double counted(const Measurement& result, std::uint32_t first, std::uint32_t last) {
    double sum = 0.0;
    for (std::uint32_t slice = first; slice < last; ++slice) {
      sum += result.slice_counted[slice * pmu::event_count + clock_];
    }
    return sum;
  }

  static constexpr std::size_t clock_ = pmu::index_of(pmu::Event::task_clock);
  std::unique_ptr<Runner> runner_ = small_runner(small_spec(1, 0, 0, 0));
};

thread_local std::size_t this_worker = 0;

TEST_F(RunnerCounters, OneWorkerWithoutDescriptorsTakesNoCounterFromTheOthers) {
  MeasureOptions options = options_for(LoadKind::saturated);
  if (options.worker_cpus.size() < 2) GTEST_SKIP() << "needs two CPUs";
  options.on_worker_start = [](std::size_t number) { this_worker = number; };
  const pmu::Opener opener = pmu::system_opener();
  options.opener = [opener](perf_event_attr& attributes, int group) {
    return this_worker == 1 ? -EMFILE : opener(attributes, group);
  };
  const Measurement result = runner_->measure(options);
  expect_consistent(result, options);
  ASSERT_TRUE(result.availability[clock_].available()) << result.availability[clock_].reason;
  // Its part is left out, and the ratio says so.
  EXPECT_GT(result.running_ratio[clock_], 0.0);
  EXPECT_LT(result.running_ratio[clock_], 1.0);
  EXPECT_GT(counted(result, 0, slices / 2), 0.0);
  EXPECT_EQ(counted(result, slices / 2, slices), 0.0);
  EXPECT_EQ(result.worker_counters[pmu::event_count + clock_], 0.0);
}

TEST_F(RunnerCounters, WhereNoWorkerHasDescriptorsTheReasonSaysSo) {
  MeasureOptions options = options_for(LoadKind::closed);
  options.opener = [](perf_event_attr&, int) { return -EMFILE; };
  const Measurement result = runner_->measure(options);
  expect_consistent(result, options);
  for (const pmu::Availability& event : result.availability) {
    EXPECT_FALSE(event.available());
    if (event.error_number != 0) {
      EXPECT_NE(event.reason.find("ulimit -n"), std::string::npos) << event.reason;
    }
  }
}

/// The limit under which this process can open `room` descriptors more.
rlim_t limit_with_room_for(int room) {
  std::vector<int> copies;
  for (int i = 0; i < room; ++i) copies.push_back(::dup(STDERR_FILENO));
  for (const int copy : copies) ::close(copy);
  return static_cast<rlim_t>(copies.back()) + 1;
}

TEST_F(RunnerCounters, ALowLimitOfDescriptorsIsRaisedWhileItMeasures) {
  // Too few for the counters of a worker. UBSan looks at types through a pipe, and the runner reads
  // a file of the system before it raises the limit.
  constexpr int room = 4;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const MeasureOptions options = options_for(LoadKind::closed);
  rlimit low = before;
  low.rlim_cur = limit_with_room_for(room);
  ASSERT_LT(low.rlim_cur, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const Measurement result = runner_->measure(options);
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(after.rlim_cur, low.rlim_cur);
  EXPECT_TRUE(result.availability[clock_].available()) << result.availability[clock_].reason;
  EXPECT_GT(counted(result, 0, slices), 0.0);
}

}  // namespace
}  // namespace pmoss::runtime
