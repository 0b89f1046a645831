// Counters on a processor that really counts: an emulated one with a fixed instruction clock, on
// which one CPU is online and a cycle passes with every instruction (tests/guest).
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "pmu/core_pmu.hpp"
#include "pmu/counters.hpp"

namespace pmoss::pmu {
namespace {

constexpr std::uint64_t inst_retired = 0x08;

/// Two instructions per round and none beside: the compiler has no say in it.
void count_down(std::uint64_t rounds) {
#if defined(__aarch64__)
  asm volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(rounds) : : "cc");
#else
  for (volatile std::uint64_t left = rounds; left > 0;) left = left - 1;
#endif
}

bool write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  return static_cast<bool>(file << text << std::flush);
}
const std::string paranoid = "/proc/sys/kernel/perf_event_paranoid";
const std::string user_access = "/proc/sys/kernel/perf_user_access";

class GuestPmu : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("PMOSS_GUEST_PMU") == nullptr) GTEST_SKIP() << "only in the guest with a PMU";
    ASSERT_TRUE(write_text(user_access, "0"));
  }

  /// As if this process could not count the kernel's part: then nothing else leaks in.
  static std::vector<Availability> in_user_mode() {
    std::vector<Availability> probed = probe();
    for (Availability& event : probed) event.user_only = true;
    return probed;
  }

  /// `count` events of the hardware, each of which counts instructions, and nothing else.
  static std::vector<Availability> instructions(std::size_t count) {
    std::vector<Availability> probed = in_user_mode();
    for (std::size_t i = 0; i < probed.size(); ++i) {
      probed[i].source = i < count ? Availability::Source::hardware : Availability::Source::none;
    }
    return probed;
  }
  static int open_instructions(perf_event_attr& attributes, int group) {
    attributes.type = PERF_TYPE_RAW;
    attributes.config = inst_retired;
    return system_opener()(attributes, group);
  }
  /// Groups of so many, each of which counts instructions.
  static ThreadCounters counting_instructions(std::size_t events, std::size_t per_group,
                                              bool rotate) {
    ThreadCounters::Options options;
    options.hardware_events_per_group = per_group;
    options.rotate = rotate;
    // All events have a code: an Arm CPU of its own would know few of them.
    options.names = [](const std::string&, perf_event_attr& attributes) {
      attributes.type = PERF_TYPE_RAW;
      return true;
    };
    CpuIdentity skylake{true, 6, 0x55};
    skylake.arm = true;  // user reads are asked for in its way
    return {instructions(events), options, &open_instructions, skylake};
  }

  /// How much `rounds` adds to an event, beyond what reading itself counts.
  static std::uint64_t added(const ThreadCounters& counters, Event event, std::uint64_t rounds) {
    const auto count = [&](std::uint64_t n) {
      Snapshot begin, end;
      EXPECT_TRUE(counters.read(begin));
      count_down(n);
      EXPECT_TRUE(counters.read(end));
      return end.values[index_of(event)] - begin.values[index_of(event)];
    };
    count(1);  // warm
    const std::uint64_t single = count(1);
    return count(1 + rounds) - single;
  }
};

TEST_F(GuestPmu, CyclesAndInstructionsAreCountedExactly) {
  ThreadCounters counters(in_user_mode(), {});
  counters.check_running();
  for (const Event event : {Event::cycles, Event::instructions}) {
    const Availability& available = counters.availability()[index_of(event)];
    ASSERT_EQ(available.source, Availability::Source::hardware) << available.reason;
    EXPECT_EQ(added(counters, event, 100'000), 200'000U) << name_of(event);
    EXPECT_EQ(added(counters, event, 1'000'000), 2'000'000U) << name_of(event);
  }
}

TEST_F(GuestPmu, AnEventThatIsNotImplementedIsNotOffered) {
  const auto pmu = core_pmu_of(0);
  ASSERT_TRUE(pmu.has_value());
  EXPECT_NE(pmu->arm_events >> inst_retired & 1, 0U);
  EXPECT_EQ(pmu->arm_events >> 0x31 & 1, 0U);
  // By itself it opens, runs and counts nothing: no look at it would tell.
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_RAW;
  attributes.config = 0x31;
  const FileDescriptor remote(system_opener()(attributes, -1));
  ASSERT_GE(remote.get(), 0);
  count_down(1'000'000);
  std::uint64_t value = 1;
  ASSERT_EQ(::read(remote.get(), &value, sizeof value), static_cast<ssize_t>(sizeof value));
  EXPECT_EQ(value, 0U);
  const auto probed = probe();
  EXPECT_FALSE(probed[index_of(Event::memory_misses)].available());
  EXPECT_TRUE(probed[index_of(Event::instructions)].available());
}

TEST_F(GuestPmu, AGroupCountsTogether) {
  const ThreadCounters counters = counting_instructions(4, 4, true);
  EXPECT_EQ(counters.group_count(), 1U);
  Snapshot begin, end;
  ASSERT_TRUE(counters.read(begin));
  count_down(50'000);
  ASSERT_TRUE(counters.read(end));
  ASSERT_EQ(counters.events().size(), 4U);
  std::vector<std::uint64_t> counted;
  for (const Event event : counters.events()) {
    counted.push_back(end.values[index_of(event)] - begin.values[index_of(event)]);
    EXPECT_EQ(counted.back(), counted.front());
    EXPECT_GE(counted.back(), 100'000U);
  }
  EXPECT_EQ(running_ratio(begin.groups[0], end.groups[0]), 1.0);
}

TEST_F(GuestPmu, GroupsTakeTurnsAndOneThatIsNotOnCountsNothing) {
  ThreadCounters counters = counting_instructions(12, 4, true);
  counters.check_running();
  const std::size_t turns = counters.turns();
  ASSERT_GT(turns, 1U);
  for (std::size_t turn = 0; turn < 2 * turns; ++turn, counters.rotate()) {
    Snapshot begin, end;
    ASSERT_TRUE(counters.read(begin, true));
    count_down(50'000);
    ASSERT_TRUE(counters.read(end, true));
    for (std::size_t i = 0; i < counters.events().size(); ++i) {
      const std::size_t group = counters.group_of()[i];
      const std::size_t event = index_of(counters.events()[i]);
      const std::uint64_t counted = end.values[event] - begin.values[event];
      const bool on = group == turn % turns;
      EXPECT_EQ(running_ratio(begin.groups[group], end.groups[group]), on ? 1.0 : 0.0);
      if (on) {
        EXPECT_GE(counted, 100'000U);
        EXPECT_LT(counted, 110'000U);
      } else {
        EXPECT_EQ(counted, 0U);
      }
    }
  }
}

TEST_F(GuestPmu, WhatTheKernelMultiplexesIsScaledRightly) {
  const ThreadCounters counters = counting_instructions(12, 1, false);
  Snapshot begin, end;
  ASSERT_TRUE(counters.read(begin, true));
  constexpr std::uint64_t rounds = 100'000'000;  // a fifth of a second of the guest's
  count_down(rounds);
  ASSERT_TRUE(counters.read(end, true));
  ASSERT_EQ(counters.events().size(), 12U);
  double smallest = 1.0;
  for (std::size_t i = 0; i < counters.events().size(); ++i) {
    const std::size_t group = counters.group_of()[i];
    const std::size_t event = index_of(counters.events()[i]);
    const double ratio = running_ratio(begin.groups[group], end.groups[group]);
    smallest = std::min(smallest, ratio);
    ASSERT_GT(ratio, 0.0);
    const auto counted = static_cast<double>(end.values[event] - begin.values[event]);
    EXPECT_NEAR(counted / ratio / (2.0 * rounds), 1.0, 0.05) << ratio;
  }
  EXPECT_LT(smallest, 0.9);
}

TEST_F(GuestPmu, AGroupThatNeverRunsIsSplitUntilItDoes) {
  const std::size_t all = 12;
  ThreadCounters counters = counting_instructions(all, all, true);
  const std::size_t before = counters.group_count();
  // The kernel lets a group open that has one member more than there are counters.
  Snapshot begin, end;
  ASSERT_TRUE(counters.read(begin));
  count_down(10'000'000);
  ASSERT_TRUE(counters.read(end));
  EXPECT_GT(end.groups[0].enabled_ns, begin.groups[0].enabled_ns);
  EXPECT_EQ(running_ratio(begin.groups[0], end.groups[0]), 0.0);
  counters.check_running();
  EXPECT_EQ(counters.events().size(), all);
  EXPECT_GT(counters.group_count(), before);
  for (std::size_t turn = 0; turn < counters.turns(); ++turn, counters.rotate()) {
    ASSERT_TRUE(counters.read(begin));
    count_down(1'000);
    ASSERT_TRUE(counters.read(end));
    EXPECT_EQ(running_ratio(begin.groups[turn], end.groups[turn]), 1.0);
    EXPECT_GT(end.groups[turn].running_ns, begin.groups[turn].running_ns);
  }
}

TEST_F(GuestPmu, RegistersAreReadWithoutTheKernelWhereThatIsAllowed) {
  {
    const ThreadCounters forbidden = counting_instructions(3, 4, true);
    EXPECT_EQ(forbidden.user_read_groups(), 0U);
    EXPECT_EQ(added(forbidden, forbidden.events().front(), 100'000), 200'000U);
  }
  ASSERT_TRUE(write_text(user_access, "1"));
  ThreadCounters counters(in_user_mode(), {});
  counters.check_running();
  std::size_t hardware = 0;
  for (std::size_t group = 0; group < counters.group_count(); ++group) hardware += 1;
  EXPECT_EQ(counters.user_read_groups(), hardware - 1);  // all but the kernel's own events
  for (const Event event : {Event::cycles, Event::instructions}) {
    EXPECT_EQ(added(counters, event, 100'000), 200'000U) << name_of(event);
  }
  // The clocks of the page go on between two visits of the kernel.
  Snapshot begin, end;
  ASSERT_TRUE(counters.read(begin));
  count_down(5'000);
  ASSERT_TRUE(counters.read(end));
  const std::size_t group = counters.group_of().back();
  EXPECT_GE(end.groups[group].running_ns, begin.groups[group].running_ns + 10'000);
  EXPECT_EQ(running_ratio(begin.groups[group], end.groups[group]), 1.0);
  // Registers of several counters at once, the cycle counter's among them.
  const ThreadCounters several = counting_instructions(4, 4, true);
  EXPECT_EQ(several.user_read_groups(), 1U);
  for (const Event event : several.events()) EXPECT_EQ(added(several, event, 1'000), 2'000U);
}

/// Runs as an ordinary user and returns what that returned.
int as_nobody(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int status = ::setgid(65534) == 0 && ::setuid(65534) == 0 ? body() : 99;
    std::fflush(nullptr);
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(GuestPmu, WhatIsNotPermittedSaysSo) {
  // Debian's own level: nothing for ordinary users.
  ASSERT_TRUE(write_text(paranoid, "3"));
  EXPECT_EQ(as_nobody([] {
              for (const Availability& event : probe()) {
                if (event.available()) return 1;
                if (event.reason == detail::no_encoding) continue;
                if (event.error_number == ENOENT) continue;  // not on this CPU
                if (event.error_number != EACCES && event.error_number != EPERM) return 2;
                if (!event.reason.starts_with("not permitted")) return 3;
              }
              return 0;
            }),
            0);
  // User mode alone.
  ASSERT_TRUE(write_text(paranoid, "2"));
  EXPECT_EQ(as_nobody([] {
              const auto probed = probe();
              const Availability& cycles = probed[index_of(Event::cycles)];
              if (!cycles.available() || !cycles.user_only) return 1;
              const Availability& switches = probed[index_of(Event::context_switches)];
              if (switches.available() || switches.error_number != EACCES) return 2;
              ThreadCounters counters(probed, {});
              counters.check_running();
              return added(counters, Event::cycles, 10'000) == 20'000 ? 0 : 3;
            }),
            0);
  ASSERT_TRUE(write_text(paranoid, "1"));
  EXPECT_EQ(as_nobody([] {
              const auto probed = probe();
              const Availability& cycles = probed[index_of(Event::cycles)];
              return cycles.available() && !cycles.user_only ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace pmoss::pmu
