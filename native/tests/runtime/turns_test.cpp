// Events that take turns on the PMU, as a worker books them. The PMU is made of files.
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#include "kinds/served_btree.hpp"
#include "pmu/counters.hpp"
#include "pmu/file_descriptor.hpp"
#include "runtime/node_memory.hpp"
#include "runtime/worker.hpp"
#include "tests/runtime/small_runner.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::runtime {
namespace {

constexpr pmu::CpuIdentity skylake_server{true, 6, 0x55};

/// Has cycles and instructions alone. Each read of one finds it `step` higher than the last.
class StepwisePmu {
 public:
  pmu::Opener opener() {
    return [this](perf_event_attr& attributes, int) -> int {
      const bool supported = attributes.type == PERF_TYPE_HARDWARE &&
                             (attributes.config == PERF_COUNT_HW_CPU_CYCLES ||
                              attributes.config == PERF_COUNT_HW_INSTRUCTIONS);
      if (!supported) return -ENOENT;
      const int file = ::memfd_create("counter", MFD_CLOEXEC);
      if (file < 0) return -errno;
      // The copy shares the place up to which it is read.
      const pmu::FileDescriptor& copy =
          files_.insert_or_assign(attributes.config, pmu::FileDescriptor(::dup(file)))
              .first->second;
      write_from(copy.get(), 0, 0, 1'000);
      return file;
    };
  }

  /// From the next reads on.
  void set_step(std::uint64_t step) {
    for (const auto& [config, file] : files_) {
      const std::uint64_t next = reads_of(file.get());
      write_from(file.get(), next, 1'000'000 + step, step);
    }
  }

  /// Of the event that was read least.
  std::uint64_t least_reads() const {
    std::uint64_t least = records;
    for (const auto& [config, file] : files_) least = std::min(least, reads_of(file.get()));
    return least;
  }

 private:
  using Record = std::array<std::uint64_t, 4>;  // members, enabled, running, value
  static constexpr std::uint64_t records = 20'000;

  static std::uint64_t reads_of(int file) {
    return static_cast<std::uint64_t>(::lseek(file, 0, SEEK_CUR)) / sizeof(Record);
  }

  static void write_from(int file, std::uint64_t first, std::uint64_t value, std::uint64_t step) {
    std::vector<Record> written;
    for (std::uint64_t i = first; i < records; ++i, value += step) {
      written.push_back({1, i, i, value});
    }
    const std::size_t bytes = written.size() * sizeof(Record);
    ASSERT_EQ(::pwrite(file, written.data(), bytes, static_cast<off_t>(first * sizeof(Record))),
              static_cast<ssize_t>(bytes));
  }

  std::map<std::uint64_t, pmu::FileDescriptor> files_;
};

TEST(CountersThatTakeTurns, AWindowBooksTheEventsWhoseTurnItWas) {
  StepwisePmu pmu;
  pmu::ThreadCounters::Options groups;
  groups.hardware_events_per_group = 1;
  groups.user_reads = false;
  pmu::ThreadCounters counters(pmu::probe(pmu.opener(), skylake_server), groups, pmu.opener(),
                               skylake_server);
  ASSERT_EQ(counters.turns(), 2U);

  kinds::ServedBTree index(small_spec(1, 0, 0, 0), {slices, false, {}});
  std::atomic<std::uint64_t> loaded{0};
  index.load(0, slices, loaded, [] { return false; });
  Worker::Settings settings;
  settings.slices = slices;
  settings.window = 1;
  NodeMemory memory(0);
  // It takes off each window what it sees now: 1,000 per read.
  const auto worker = make_in<Worker>(memory, settings, index, std::move(counters), memory);
  pmu.set_step(3'000);

  Control control;
  std::atomic<std::size_t> routers_running{1};
  control.enter(Phase::measuring);
  const std::uint64_t enough = pmu.least_reads() + 5 * Worker::windows_per_rotation;
  std::jthread router([&] {
    for (std::uint64_t record = 0; pmu.least_reads() < enough; ++record) {
      const Operation lookup{key_of_record(record % 20'000, 5), 0, Operation::Kind::lookup};
      const Item item(lookup, 0);
      while (worker->ring(0).push(&item, 1) == 0) std::this_thread::yield();
    }
    control.enter(Phase::drain);
    routers_running = 0;
  });
  worker->run(control, routers_running, {});

  const Tally tally = worker->tallies().total();
  const double cycles = tally.sample.counts[pmu::index_of(pmu::Event::cycles)];
  const double instructions = tally.sample.counts[pmu::index_of(pmu::Event::instructions)];
  EXPECT_GT(cycles, 0.0);
  EXPECT_GT(instructions, 0.0);
  EXPECT_EQ(cycles + instructions, 2'000.0 * static_cast<double>(tally.windows));
  // Reading and booking take a part of each window, which is no slice's.
  const double of_slices = std::accumulate(tally.counters.begin(), tally.counters.end(), 0.0);
  EXPECT_GT(of_slices, 0.0);
  EXPECT_LE(of_slices, (cycles + instructions) * (1.0 + 1e-12));
}

}  // namespace
}  // namespace pmoss::runtime
