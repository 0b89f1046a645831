#include "runtime/runner.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "numa/affinity.hpp"
#include "runtime/collect.hpp"
#include "tests/runtime/small_runner.hpp"
#include "workload/histogram.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::runtime {
namespace {

class RunnerTest : public testing::Test {
 protected:
  Runner& make(const WorkloadSpec& spec) {
    runner_ = small_runner(spec);
    runner_->load();
    return *runner_;
  }
  std::unique_ptr<Runner> runner_;
};

TEST_F(RunnerTest, LoadsEveryRecordAndReportsProgress) {
  const WorkloadSpec spec = small_spec(1, 0, 0, 0);
  const auto made = small_runner(spec, 3);
  Runner& runner = *made;
  std::uint64_t last = 0;
  runner.load([&](std::uint64_t done) {
    EXPECT_GE(done, last);
    last = done;
    return false;
  });
  EXPECT_EQ(last, spec.records);
  EXPECT_EQ(runner.index().size(), spec.records);
  for (std::uint64_t record = 0; record < spec.records; record += 37) {
    std::uint64_t value = 0;
    EXPECT_TRUE(btree_of(runner).lookup(key_of_record(record, spec.seed), value));
  }
}

TEST_F(RunnerTest, ACancelledLoadCanBeTakenUpAgain) {
  WorkloadSpec spec = small_spec(1, 0, 0, 0);
  spec.records = 400'000;
  const auto made = small_runner(spec);
  Runner& runner = *made;
  // A fast host may be done before the first poll.
  try {
    runner.load([](std::uint64_t) { return true; });
  } catch (const Cancelled&) {
    EXPECT_THROW(runner.measure(options_for(LoadKind::closed)), RunnerError);
  }
  runner.load();
  EXPECT_EQ(runner.index().size(), spec.records);
}

TEST_F(RunnerTest, ClosedLoadKeepsItsTokens) {
  Runner& runner = make(small_spec(0.5, 0, 0, 0.5));
  for (const std::uint32_t per_worker : {1U, 32U}) {
    MeasureOptions options = options_for(LoadKind::closed);
    options.outstanding_per_worker = per_worker;
    const Measurement result = runner.measure(options);
    expect_consistent(result, options);
    EXPECT_LE(result.max_outstanding, per_worker * options.worker_cpus.size());
    EXPECT_GE(result.max_outstanding, 1U);
    EXPECT_EQ(result.skipped, 0U);
    EXPECT_EQ(result.inserted, 0U);
  }
}

TEST_F(RunnerTest, ClosedLoadWithSeveralRoutersSharesTheTokens) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::closed);
  options.router_cpus = {options.worker_cpus.front(), options.worker_cpus.back()};
  options.outstanding_per_worker = 7;
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  EXPECT_LE(result.max_outstanding, 7 * options.worker_cpus.size());
  EXPECT_EQ(result.router_cpus, options.router_cpus);
  EXPECT_TRUE(result.roles_share_cores);
}

TEST_F(RunnerTest, AllQueriesOfADeepClosedLoadMayWaitForOneWorker) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::closed);
  options.outstanding_per_worker = 9000;
  options.schedule.cores.assign(slices, options.worker_cpus.front());
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  EXPECT_EQ(result.backpressure, 0U);
}

TEST_F(RunnerTest, SaturatedLoadReachesEveryWorkerWithASlice) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::saturated);
  options.queue_items = 256;
  if (options.worker_cpus.size() > 1) {
    // One slice against all others: the small one's worker must get its backlog all the same.
    for (std::uint32_t slice = 1; slice < slices; ++slice) {
      options.schedule.cores[slice] = options.worker_cpus[1];
    }
  }
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  for (const std::uint64_t queries : result.worker_queries) EXPECT_GT(queries, 0U);
}

TEST_F(RunnerTest, OpenLoadKeepsToItsRate) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::open);
  options.rate_mqs = 0.002;
  options.seconds = 0.5;
  const auto begin = std::chrono::steady_clock::now();
  const Measurement result = runner.measure(options);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  expect_consistent(result, options);
  // Never ahead of the plan, but a busy host may fall behind it. The number of arrivals has a
  // standard deviation of the root of its mean.
  const double planned = 2000.0 * elapsed.count();
  EXPECT_LE(static_cast<double>(result.issued), planned + 6.0 * std::sqrt(planned));
  EXPECT_GT(result.issued, 0U);
}

// Answered queries of an overload are those that came early. The others waited longer.
TEST_F(RunnerTest, ResponseTimesOfAnOverloadAreThoseOfAllThatItOffered) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::open);
  options.rate_mqs = 5000.0;
  const auto begin = std::chrono::steady_clock::now();
  const Measurement result = runner.measure(options);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  expect_consistent(result, options);
  const auto arrived = static_cast<double>(result.executed + result.unsent);
  EXPECT_GE(arrived, 0.99 * 1e6 * options.rate_mqs * result.seconds);
  EXPECT_LE(arrived, 1.01 * 1e6 * options.rate_mqs * elapsed.count());
  EXPECT_GT(result.unsent, 9 * result.executed);
  EXPECT_GE(result.max_lag_us, 0.9e6 * result.seconds);
  EXPECT_GT(result.latency_p50_us, 1e6 * result.seconds);
  // The last ones of a slow host share the widest bucket of the histogram.
  EXPECT_GE(result.latency_max_us, result.latency_p99_us);
}

TEST_F(RunnerTest, QueriesInFlightAtTheEndAreCountedUnderEveryLoad) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::closed);
  options.outstanding_per_worker = 9000;
  const Measurement closed = runner.measure(options);
  EXPECT_GT(closed.unanswered, 0U);
  EXPECT_LE(closed.unanswered, closed.max_outstanding);
  EXPECT_EQ(closed.unsent, 0U);
  EXPECT_GT(runner.measure(options_for(LoadKind::saturated)).unanswered, 0U);
}

TEST(UnsentArrivals, FollowEachOtherAtTheRateOfTheMeasurement) {
  // They came in ticks 100 to 200, and are served in ticks 300 to 700.
  Histogram late;
  UnsentArrivals{100.0, 100.0, 4'000'000}.add_to(late, 300.0, 400.0);
  EXPECT_EQ(late.count(), 4'000'000U);
  EXPECT_NEAR(late.quantile(0.0), 200.0, 4.0);
  EXPECT_NEAR(late.quantile(0.5), 350.0, 7.0);
  EXPECT_NEAR(late.quantile(1.0), 500.0, 9.0);
  // Where nothing is served, they count as long as they have waited.
  Histogram waiting;
  UnsentArrivals{100.0, 100.0, 3}.add_to(waiting, 200.0, 0.0);
  EXPECT_EQ(waiting.count(), 3U);
  EXPECT_NEAR(waiting.quantile(0.0), 100.0 / 6.0, 1.0);
  EXPECT_NEAR(waiting.quantile(1.0), 500.0 / 6.0, 2.0);
}

TEST_F(RunnerTest, EachWorkerSeesItsSlicesOnly) {
  Runner& runner = make(small_spec(0.5, 0.1, 0, 0.4));
  for (const LoadKind load : {LoadKind::closed, LoadKind::saturated, LoadKind::open}) {
    MeasureOptions options = options_for(load);
    options.rate_mqs = 0.05;
    const Measurement result = runner.measure(options);
    expect_consistent(result, options);
    for (std::size_t worker = 0; worker < options.worker_cpus.size(); ++worker) {
      for (std::size_t slice = 0; slice < slices; ++slice) {
        if (options.schedule.cores[slice] != options.worker_cpus[worker]) {
          EXPECT_EQ(result.worker_slice_queries[worker * slices + slice], 0U);
        }
      }
    }
  }
}

TEST_F(RunnerTest, NoInsertedKeyIsLostOrInsertedTwice) {
  const WorkloadSpec spec = small_spec(0.5, 0.5, 0, 0);
  Runner& runner = make(spec);
  std::uint64_t expected = spec.records;
  for (const LoadKind load : {LoadKind::closed, LoadKind::open, LoadKind::closed}) {
    MeasureOptions options = options_for(load);
    options.rate_mqs = 0.02;
    const std::uint64_t first = runner.next_insert_record();
    const Measurement result = runner.measure(options);
    expect_consistent(result, options);
    EXPECT_GT(result.inserted, 0U);
    expected += result.inserted;
    // One router: the records from `first` on, without gaps. All were new.
    EXPECT_EQ(runner.next_insert_record(), first + result.inserted);
    EXPECT_EQ(runner.index().size(), expected);
  }
  std::uint64_t missing = 0;
  for (std::uint64_t record = 0; record < runner.next_insert_record(); ++record) {
    std::uint64_t value = 0;
    missing += btree_of(runner).lookup(key_of_record(record, spec.seed), value) ? 0 : 1;
  }
  EXPECT_EQ(missing, 0U);
}

TEST_F(RunnerTest, ScansRunWhereverTheyCross) {
  WorkloadSpec spec = small_spec(0.2, 0.05, 0.75, 0);
  spec.records = 500;  // about 31 keys per slice: most scans cross
  Runner& runner = make(spec);
  const MeasureOptions options = options_for(LoadKind::closed);
  expect_consistent(runner.measure(options), options);
}

TEST_F(RunnerTest, CountersOfTheKernelArriveAtTheSlices) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::saturated);
  options.window = 10;
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  const std::size_t clock = pmu::index_of(pmu::Event::task_clock);
  if (!result.availability[clock].available()) GTEST_SKIP() << result.availability[clock].reason;
  EXPECT_GT(result.windows, 0U);
  EXPECT_GT(result.running_ratio[clock], 0.0);
  double ns = 0.0;
  for (std::size_t slice = 0; slice < slices; ++slice) {
    ns += result.slice_counters[slice * pmu::event_count + clock];
  }
  EXPECT_GT(ns, 0.0);
  double total_ns = 0.0;
  for (std::size_t worker = 0; worker < options.worker_cpus.size(); ++worker) {
    total_ns += result.worker_counters[worker * pmu::event_count + clock];
  }
  EXPECT_LE(ns, total_ns);
}

TEST_F(RunnerTest, SlowSlicesGetTheirPartOfTheWindows) {
  // Scans to the end of all keys: the lower the slice, the longer they are, and every window holds
  // queries of all slices.
  WorkloadSpec spec = small_spec(0, 0, 1, 0);
  spec.distribution = Distribution::uniform;
  spec.max_scan_length = 65'535;
  Runner& runner = make(spec);
  MeasureOptions options = options_for(LoadKind::saturated);
  options.worker_cpus = {options.worker_cpus.front()};
  options.schedule.cores.assign(slices, options.worker_cpus.front());
  options.window = 50;
  options.seconds = 0.3;
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  const std::size_t clock = pmu::index_of(pmu::Event::task_clock);
  if (!result.availability[clock].available()) GTEST_SKIP() << result.availability[clock].reason;
  // On average over a quarter of the slices, the first scans about 14/16 of the keys and the last
  // 2/16; equal parts of the windows would make them equal.
  const auto per_query = [&](std::size_t first) {
    double ns = 0.0;
    double queries = 0.0;
    for (std::size_t slice = first; slice < first + slices / 4; ++slice) {
      ns += result.slice_counters[slice * pmu::event_count + clock];
      queries += result.slice_counted[slice * pmu::event_count + clock];
    }
    EXPECT_GT(queries, 0.0);
    return ns / queries;
  };
  EXPECT_GT(per_query(0), 1.5 * per_query(slices - slices / 4));
}

TEST_F(RunnerTest, ServiceTimeCoversTheProcessorTimeOfTheWindows) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::saturated);
  options.worker_cpus = {options.worker_cpus.front()};
  options.schedule.cores.assign(slices, options.worker_cpus.front());
  options.window = 5;  // the shorter it is, the more weighs what lies between two windows
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  const std::size_t clock = pmu::index_of(pmu::Event::task_clock);
  if (!result.availability[clock].available()) GTEST_SKIP() << result.availability[clock].reason;
  double processor_ns = 0.0;
  double service_ns = 0.0;
  for (std::size_t slice = 0; slice < slices; ++slice) {
    processor_ns += result.slice_counters[slice * pmu::event_count + clock];
    service_ns += result.slice_service_seconds[slice] * 1e9;
  }
  // The windows lie within the service time, and the thread is on the processor for a part of it.
  // Left to noise: the cost of reading the counters, which is taken off as it is at rest.
  EXPECT_GT(processor_ns, 0.0);
  EXPECT_LE(processor_ns, 1.1 * service_ns);
}

TEST_F(RunnerTest, ACounterThatCannotBeReadIsNotAvailable) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  for (const std::uint32_t window : {0U, 10U}) {
    MeasureOptions options = options_for(LoadKind::closed);
    options.window = window;
    options.opener = [](perf_event_attr&, int) {
      return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    };
    const Measurement result = runner.measure(options);
    expect_consistent(result, options);
    EXPECT_EQ(result.windows, 0U);
    for (const auto& event : result.availability) EXPECT_FALSE(event.available());
    const pmu::Availability& clock = result.availability[pmu::index_of(pmu::Event::task_clock)];
    EXPECT_EQ(clock.error_number, EIO);
    EXPECT_NE(clock.reason.find("reading"), std::string::npos) << clock.reason;
    for (const double value : result.worker_counters) EXPECT_EQ(value, 0.0);
  }
}

TEST_F(RunnerTest, ACounterThatIsLostOnTheWayIsNotAvailable) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::closed);
  options.worker_cpus = {options.worker_cpus.front()};
  options.schedule.cores.assign(slices, options.worker_cpus.front());
  options.window = 0;  // so that the only reads are those at the beginning and at the end
  // Each group can be read once. Asked for the kernel's events only, each in a group of its own.
  options.opener = [](perf_event_attr& attributes, int group) {
    if (attributes.type != PERF_TYPE_SOFTWARE) return -ENOENT;
    if (group >= 0) return -EINVAL;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return -errno;
    const std::array<std::uint64_t, 4> record{1, 500, 500, 7};
    EXPECT_EQ(::write(ends[1], record.data(), sizeof record), ssize_t{sizeof record});
    ::close(ends[1]);
    return ends[0];
  };
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  const pmu::Availability& clock = result.availability[pmu::index_of(pmu::Event::task_clock)];
  EXPECT_FALSE(clock.available());
  EXPECT_NE(clock.reason.find("reading"), std::string::npos) << clock.reason;
  for (const double value : result.worker_counters) EXPECT_EQ(value, 0.0);
}

TEST_F(RunnerTest, RunsWithoutAnyCounter) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::closed);
  options.opener = [](perf_event_attr&, int) { return -EACCES; };
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  EXPECT_EQ(result.windows, 0U);
  for (const auto& event : result.availability) EXPECT_FALSE(event.available());
  options.window = 0;
  expect_consistent(runner.measure(options), options);
}

TEST_F(RunnerTest, ABusyCoTenantRunsAlong) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::closed);
  const int cpu = options.worker_cpus.front();
  for (const auto kind :
       {CoTenant::Kind::spin, CoTenant::Kind::cache_thrash, CoTenant::Kind::memory_stream}) {
    options.co_tenants = {{kind, cpu, 0.6, std::uint64_t{4} << 20, -1}};
    Measurement result;
    // On a busy host it may get no time while queries are counted.
    for (int attempt = 0; attempt < 100; ++attempt) {
      result = runner.measure(options);
      if (result.co_tenant_bytes > 0 || kind == CoTenant::Kind::spin) break;
    }
    expect_consistent(result, options);
    EXPECT_EQ(result.co_tenant_cpus, std::vector<int>{cpu});
    EXPECT_EQ(result.co_tenant_bytes > 0, kind != CoTenant::Kind::spin);
  }
}

TEST_F(RunnerTest, ACoTenantsBytesAreThoseOfTheMeasurementAlone) {
  Control control;
  control.enter(Phase::warmup);
  std::uint64_t streamed = 1;
  std::atomic<bool> runs{false};
  std::jthread thread([&] {
    CoTenantThread co_tenant({CoTenant::Kind::memory_stream, 0, 0.9, std::uint64_t{4} << 20, -1});
    runs = true;
    streamed = co_tenant.run(control);
  });
  while (!runs) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  control.enter(Phase::drain);
  thread.join();
  EXPECT_EQ(streamed, 0U);
}

TEST_F(RunnerTest, ASpinningCoTenantGetsCompanyToTakeMoreThanHalf) {
  const auto threads = [](double strength) {
    return threads_of({CoTenant::Kind::spin, 0, strength, 0, -1});
  };
  EXPECT_EQ(threads(0.2), 1U);
  EXPECT_EQ(threads(0.5), 1U);
  EXPECT_EQ(threads(0.67), 2U);
  EXPECT_EQ(threads(0.75), 3U);
  EXPECT_EQ(threads(0.999), 16U);
}

TEST_F(RunnerTest, BatchesAnswerTheSameQueries) {
  Runner& runner = make(small_spec(0.4, 0.2, 0.2, 0.2));
  for (const std::uint32_t batch : {2U, 16U, 64U}) {
    MeasureOptions options = options_for(LoadKind::closed);
    options.batch = batch;
    options.outstanding_per_worker = 128;
    options.window = 100;
    expect_consistent(runner.measure(options), options);
  }
  std::uint64_t value = 0;
  for (std::uint64_t record = 0; record < runner.next_insert_record(); ++record) {
    ASSERT_TRUE(btree_of(runner).lookup(key_of_record(record, 5), value)) << record;
  }
}

TEST_F(RunnerTest, CancellingEndsALongMeasurement) {
  Runner& runner = make(small_spec(0.5, 0.5, 0, 0));
  for (const LoadKind load : {LoadKind::closed, LoadKind::saturated, LoadKind::open}) {
    MeasureOptions options = options_for(load);
    options.rate_mqs = 0.01;
    options.seconds = 3000.0;  // the test would not end if it were not cancelled
    int polls = 0;
    EXPECT_THROW(runner.measure(options, [&] { return ++polls >= 3; }), Cancelled);
    EXPECT_EQ(polls, 3);
  }
  // Still usable, and nothing is inserted twice.
  const std::uint64_t before = runner.index().size();
  const MeasureOptions options = options_for(LoadKind::closed);
  const Measurement result = runner.measure(options);
  expect_consistent(result, options);
  EXPECT_EQ(runner.index().size(), before + result.inserted);
}

TEST_F(RunnerTest, AnExceptionOfThePollPassesThrough) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::closed);
  options.seconds = 3000.0;
  EXPECT_THROW(runner.measure(options, []() -> bool { throw std::logic_error("from the poll"); }),
               std::logic_error);
  expect_consistent(runner.measure(options_for(LoadKind::closed)), options_for(LoadKind::closed));
}

TEST_F(RunnerTest, AnErrorInAWorkerReachesTheCaller) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  MeasureOptions options = options_for(LoadKind::closed);
  options.seconds = 3000.0;
  const std::size_t last = options.worker_cpus.size() - 1;
  options.on_worker_start = [last](std::size_t worker) {
    if (worker == last) throw std::bad_alloc();
  };
  try {
    runner.measure(options);
    FAIL() << "the error was lost";
  } catch (const RunnerError& error) {
    EXPECT_NE(std::string(error.what()).find("worker " + std::to_string(last)), std::string::npos)
        << error.what();
    EXPECT_THROW(std::rethrow_if_nested(error), std::bad_alloc);
  }
}

TEST_F(RunnerTest, RefusesWhatMakesNoSense) {
  Runner& runner = make(small_spec(1, 0, 0, 0));
  const MeasureOptions good = options_for(LoadKind::open);
  const auto refuse = [&](auto change, const std::string& words) {
    MeasureOptions bad = good;
    bad.rate_mqs = 0.01;
    change(bad);
    try {
      runner.measure(bad);
      ADD_FAILURE() << "not refused: " << words;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const std::string first_cpu = std::to_string(good.worker_cpus[0]);
  refuse([](auto& o) { o.schedule.cores.pop_back(); }, "15 entries for 16 slices");
  refuse([](auto& o) { o.schedule.cores[3] = 60'000; },
         "slice 3 is on CPU 60000, which has no worker");
  refuse([](auto& o) { o.worker_cpus.push_back(o.worker_cpus[0]); },
         "worker_cpus names CPU " + first_cpu + " twice");
  refuse([](auto& o) { o.worker_cpus.push_back(60'000); }, "worker_cpus: CPU 60000 is not");
  refuse([](auto& o) { o.worker_cpus.clear(); }, "worker_cpus is empty; it must name at least one");
  refuse([](auto& o) { o.router_cpus = {-1}; }, "router_cpus: CPU -1 is not");
  refuse([](auto& o) { o.co_tenants = {{CoTenant::Kind::spin, 60'000, 0.5, 0, -1}}; },
         "co_tenants: CPU 60000 is not");
  refuse([](auto& o) { o.co_tenants = {{CoTenant::Kind::spin, o.worker_cpus[0], 1.0, 0, -1}}; },
         "strength is 1; it must lie between 0 and 1");
  refuse([](auto& o) { o.batch = 0; }, "batch is 0; it must lie in 1 .. 64");
  refuse([](auto& o) { o.schedule.data = DataPlacement::slice; }, "nodes has 0 entries for 16");
  refuse([](auto& o) { o.schedule.data = DataPlacement::loader; }, "which only models know");
  refuse(
      [](auto& o) {
        o.schedule.data = DataPlacement::slice;
        o.schedule.nodes.assign(slices, 999);
      },
      "slice 0 has its data on node 999, which has no memory");
  refuse(
      [](auto& o) {
        o.schedule.routing = Routing::node;
        o.schedule.nodes.assign(slices, 999);
      },
      "slice 0 is routed to the workers of node 999, which has none");
  refuse(
      [](auto& o) {
        o.changes = {{0.1, o.schedule}};
        o.changes[0].schedule.cores.pop_back();
      },
      "15 entries for 16 slices");
  refuse([](auto& o) { o.rate_mqs = 0.0; },
         "rate_mqs is 0; it must be above 0 and at most 1000000");
  refuse([](auto& o) { o.rate_mqs = 2e6; }, "rate_mqs is 2e+06; it must be above 0 and at most");
  refuse([](auto& o) { o.rate_mqs = std::numeric_limits<double>::quiet_NaN(); }, "rate_mqs is nan");
  refuse([](auto& o) { o.seconds = 0.0; }, "seconds is 0; it must be above 0 and at most 3600");
  refuse([](auto& o) { o.seconds = 3600.5; }, "seconds is 3600.5; it must");
  refuse([](auto& o) { o.warmup_seconds = -1.25; },
         "warmup_seconds is -1.25; it must be at least 0 and at most 3600");
  refuse([](auto& o) { o.queue_items = 0; }, "queue_items is 0; it must lie in 1 .. 16777216");
  refuse([](auto& o) { o.queue_items = 20'000'000; }, "queue_items is 20000000; it must");
  refuse([](auto& o) { o.window = 20'000'000; }, "window is 20000000; it must be at most 16777216");
  refuse(
      [](auto& o) {
        o.load = LoadKind::closed;
        o.outstanding_per_worker = 0;
      },
      "outstanding_per_worker is 0; it must be at least 1 for a closed load");
  refuse(
      [](auto& o) {
        o.load = LoadKind::closed;
        o.worker_cpus = {o.worker_cpus[0]};
        o.schedule.cores.assign(slices, o.worker_cpus[0]);
        o.router_cpus.assign(3, o.worker_cpus[0]);
        o.outstanding_per_worker = 2;
      },
      "3 routers for 2 queries in flight (outstanding_per_worker is 2, with 1 worker)");

  EXPECT_THROW(small_runner(small_spec(1, 1, 0, 0)), std::invalid_argument);
  EXPECT_THROW(
      kinds::kind_named("btree").serve(small_spec(1, 0, 0, 0), {.slices = 0, .huge_pages = false}),
      std::invalid_argument);
  WorkloadSpec long_scans = small_spec(1, 0, 0, 0);
  long_scans.max_scan_length = 70'000;
  try {
    small_runner(long_scans);
    ADD_FAILURE() << "not refused";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "max_scan_length is 70000; it must be at most 65535");
  }
  const auto made = small_runner(small_spec(1, 0, 0, 0), 1);
  Runner& empty = *made;
  EXPECT_THROW(empty.measure(good), RunnerError);
}

}  // namespace
}  // namespace pmoss::runtime
