// Measurements of the runtime on a processor that really counts.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kinds/index_kind.hpp"
#include "runtime/runner.hpp"

namespace pmoss::runtime {
namespace {

constexpr std::uint32_t slices = 16;

TEST(GuestCounting, QueriesOfEverySliceHaveTheirCyclesAndInstructions) {
  if (std::getenv("PMOSS_GUEST_PMU") == nullptr) GTEST_SKIP() << "only in the guest with a PMU";
  WorkloadSpec spec;
  spec.lookup = 1.0;
  spec.records = 20'000;
  const auto runner = kinds::make_runner(kinds::kind_named("btree"), spec, {slices, false, {}}, 1);
  runner->load();
  MeasureOptions options;
  options.worker_cpus = {0, 2};
  options.router_cpus = {4};
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    options.schedule.cores.push_back(options.worker_cpus[slice % 2]);
  }
  options.seconds = 0.3;
  options.warmup_seconds = 0.05;
  const Measurement result = runner->measure(options);
  EXPECT_GT(result.completed, 0U);
  for (const pmu::Event event : {pmu::Event::cycles, pmu::Event::instructions}) {
    const std::size_t at = pmu::index_of(event);
    ASSERT_EQ(result.availability[at].source, pmu::Availability::Source::hardware)
        << result.availability[at].reason;
    EXPECT_GT(result.running_ratio[at], 0.9);
    EXPECT_LE(result.running_ratio[at], 1.0);
    double of_slices = 0.0;
    double of_workers = 0.0;
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      const double counted = result.slice_counted[slice * pmu::event_count + at];
      const double value = result.slice_counters[slice * pmu::event_count + at];
      ASSERT_GT(counted, 0.0) << slice;
      // A lookup descends two or three levels: at least some fifty instructions.
      EXPECT_GT(value / counted, 50.0) << slice;
      of_slices += value;
    }
    for (std::size_t worker = 0; worker < options.worker_cpus.size(); ++worker) {
      of_workers += result.worker_counters[worker * pmu::event_count + at];
    }
    EXPECT_LE(of_slices, of_workers);
  }
  // What this processor does not implement is not there.
  EXPECT_FALSE(result.availability[pmu::index_of(pmu::Event::memory_misses)].available());
}

}  // namespace
}  // namespace pmoss::runtime
