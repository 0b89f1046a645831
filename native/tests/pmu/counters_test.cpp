#include "pmu/counters.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace pmoss::pmu {
namespace {

using Source = Availability::Source;
constexpr CpuIdentity skylake_server{true, 6, 0x55};
constexpr CpuIdentity other_cpu{};

// A kernel made of a table: which events fail and how, and what the groups' leaders say.
class FakeKernel {
 public:
  void fail(Event event, int error_number) { failures_[event] = error_number; }
  void fail_all_hardware(int error_number) {
    for (std::size_t i = 0; i < first_software_event; ++i)
      fail(static_cast<Event>(i), error_number);
  }
  /// Hardware events that fit in one group; one more is refused, as the kernel does.
  void set_counters(std::size_t counters) { counters_ = counters; }
  void forbid_kernel_mode() { kernel_mode_forbidden_ = true; }

  Opener opener(const CpuIdentity& cpu = skylake_server) {
    return [this, cpu](perf_event_attr& attributes, int group) -> int {
      if (kernel_mode_forbidden_ && attributes.exclude_kernel == 0) return -EACCES;
      const Event event = find(attributes, cpu);
      if (const auto failure = failures_.find(event); failure != failures_.end()) {
        return -failure->second;
      }
      if (group >= 0) {
        Group& members = groups_.at(group);
        const bool hardware = index_of(event) < first_software_event;
        if (hardware && members.events.size() >= counters_) return -EINVAL;
        members.events.push_back(event);
        return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      }
      std::array<int, 2> ends{};
      if (::pipe2(ends.data(), O_CLOEXEC) != 0) return -errno;
      Group leader;
      leader.write_end = FileDescriptor(ends[1]);
      leader.events.push_back(event);
      groups_.insert_or_assign(ends[0], std::move(leader));
      return ends[0];
    };
  }

  /// What the next read of the group that holds `event` returns; value[i] for its i-th member.
  void answer(Event event, std::uint64_t enabled, std::uint64_t running,
              std::uint64_t first_value) {
    for (auto& [descriptor, group] : groups_) {
      if (std::find(group.events.begin(), group.events.end(), event) == group.events.end())
        continue;
      std::vector<std::uint64_t> record{group.events.size(), enabled, running};
      for (std::size_t i = 0; i < group.events.size(); ++i) record.push_back(first_value + i);
      const std::size_t bytes = record.size() * sizeof record[0];
      ASSERT_EQ(::write(group.write_end.get(), record.data(), bytes), static_cast<ssize_t>(bytes));
    }
  }

 private:
  struct Group {
    FileDescriptor write_end;
    std::vector<Event> events;
  };
  static Event find(const perf_event_attr& wanted, const CpuIdentity& cpu) {
    for (std::size_t i = 0; i < event_count; ++i) {
      perf_event_attr attributes{};
      if (detail::encode(static_cast<Event>(i), cpu, attributes) &&
          attributes.type == wanted.type && attributes.config == wanted.config) {
        return static_cast<Event>(i);
      }
    }
    ADD_FAILURE() << "unknown event: type " << wanted.type << " config " << wanted.config;
    return Event::cycles;
  }
  std::map<Event, int> failures_;
  std::map<int, Group> groups_;
  std::size_t counters_ = 100;
  bool kernel_mode_forbidden_ = false;
};

ThreadCounters::Options with_groups_of(std::size_t events) {
  ThreadCounters::Options options;
  options.hardware_events_per_group = events;
  return options;
}

// The events from `first` on that the table can ask a Skylake server for: rows may be added to it.
std::vector<Event> asked(std::size_t first, std::size_t last) {
  std::vector<Event> events;
  for (std::size_t i = first; i < last; ++i) {
    perf_event_attr attributes{};
    const Event event = static_cast<Event>(i);
    if (detail::encode(event, skylake_server, attributes)) events.push_back(event);
  }
  return events;
}
const std::vector<Event> hardware_events = asked(0, first_software_event);
const std::vector<Event> software_events = asked(first_software_event, event_count);

TEST(Probe, EventsHaveDistinctNamesAndEncodings) {
  std::set<std::string_view> names;
  std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> codes;
  for (std::size_t i = 0; i < event_count; ++i) {
    const Event event = static_cast<Event>(i);
    names.insert(name_of(event));
    perf_event_attr attributes{};
    if (!detail::encode(event, skylake_server, attributes)) continue;
    EXPECT_TRUE(codes.emplace(attributes.type, attributes.config, attributes.config1).second)
        << name_of(event);
  }
  EXPECT_EQ(names.size(), event_count);
  EXPECT_GE(codes.size(), 19U);  // of the events that this server has always had
}

TEST(Probe, TheKernelsPartIsItsOwnEventsAlone) {
  for (std::size_t i = 0; i < event_count; ++i) {
    perf_event_attr attributes{};
    if (!detail::encode(static_cast<Event>(i), skylake_server, attributes)) continue;
    EXPECT_EQ(attributes.type == PERF_TYPE_SOFTWARE, i >= first_software_event);
  }
}

TEST(Probe, ADifferentKindOfCpuIsAskedByItsOwnCodes) {
  const auto code_of = [](Event event, const CpuIdentity& cpu) {
    perf_event_attr attributes{};
    EXPECT_TRUE(detail::encode(event, cpu, attributes));
    return std::pair<std::uint32_t, std::uint64_t>(attributes.type, attributes.config);
  };
  const CpuIdentity skylake_client{true, 6, 0x5e};
  for (const CpuIdentity& cpu : {skylake_server, skylake_client}) {
    EXPECT_EQ(code_of(Event::cycles_l3_miss, cpu),
              std::pair(std::uint32_t{PERF_TYPE_RAW}, std::uint64_t{0x020002a3}));
    EXPECT_EQ(code_of(Event::cycles_mem_any, cpu),
              std::pair(std::uint32_t{PERF_TYPE_RAW}, std::uint64_t{0x100010a3}));
  }
  EXPECT_EQ(code_of(Event::memory_misses, other_cpu),
            std::pair(std::uint32_t{PERF_TYPE_HW_CACHE},
                      std::uint64_t{PERF_COUNT_HW_CACHE_NODE | 0x10000}));
  EXPECT_EQ(code_of(Event::llc_write_misses, other_cpu),
            std::pair(std::uint32_t{PERF_TYPE_HW_CACHE},
                      std::uint64_t{PERF_COUNT_HW_CACHE_LL | 0x10100}));
  EXPECT_EQ(code_of(Event::cycles, other_cpu),
            std::pair(std::uint32_t{PERF_TYPE_HARDWARE}, std::uint64_t{PERF_COUNT_HW_CPU_CYCLES}));
  // The models of a family of another number are no Skylakes.
  perf_event_attr attributes{};
  EXPECT_FALSE(detail::encode(Event::cycles_mem_any, {true, 7, 0x5e}, attributes));
}

TEST(Probe, EachErrorHasItsReason) {
  const std::vector<std::pair<int, std::string>> cases{{ENOENT, "unsupported"},
                                                       {EOPNOTSUPP, "unsupported"},
                                                       {ENODEV, "unsupported"},
                                                       {EINVAL, "unsupported"},
                                                       {EACCES, "not permitted"},
                                                       {EPERM, "not permitted"},
                                                       {EMFILE, "out of file descriptors"}};
  for (const auto& [error_number, words] : cases) {
    FakeKernel kernel;
    kernel.fail(Event::l1d_misses, error_number);
    const auto answers = probe(kernel.opener(), skylake_server);
    ASSERT_EQ(answers.size(), event_count);
    for (std::size_t i = 0; i < event_count; ++i) {
      EXPECT_EQ(index_of(answers[i].event), i);
      if (answers[i].event == Event::l1d_misses) {
        EXPECT_EQ(answers[i].source, Source::none);
        EXPECT_EQ(answers[i].error_number, error_number);
        EXPECT_TRUE(answers[i].reason.starts_with(words)) << answers[i].reason;
      } else if (answers[i].reason != detail::no_encoding) {
        // One event that fails costs no other.
        EXPECT_EQ(answers[i].source,
                  i < first_software_event ? Source::hardware : Source::software);
        EXPECT_TRUE(answers[i].reason.empty());
      }
    }
  }
}

TEST(Probe, RawCodesAreUsedOnlyWhereTheyAreSure) {
  FakeKernel kernel;
  const auto answers = probe(kernel.opener(other_cpu), other_cpu, {});
  for (const Event event :
       {Event::local_dram, Event::remote_dram, Event::cycles_l3_miss, Event::cycles_mem_any}) {
    EXPECT_FALSE(answers[index_of(event)].available());
    EXPECT_EQ(answers[index_of(event)].error_number, 0);
  }
  EXPECT_TRUE(answers[index_of(Event::cycles)].available());
}

TEST(Probe, WithoutKernelModeTheRestIsCountedInUserMode) {
  FakeKernel kernel;
  kernel.forbid_kernel_mode();
  const auto answers = probe(kernel.opener(), skylake_server);
  EXPECT_TRUE(answers[index_of(Event::cycles)].available());
  EXPECT_TRUE(answers[index_of(Event::cycles)].user_only);
  // Counted in the kernel only: always 0 in user mode, so they must not be offered.
  EXPECT_FALSE(answers[index_of(Event::context_switches)].available());
  EXPECT_EQ(answers[index_of(Event::cpu_migrations)].error_number, EACCES);
}

TEST(Counters, WithoutAPmuOnlyTheKernelsEventsRemain) {
  FakeKernel kernel;
  kernel.fail_all_hardware(ENOENT);
  const auto probed = probe(kernel.opener(), skylake_server);
  const ThreadCounters counters(probed, {}, kernel.opener(), skylake_server);
  EXPECT_EQ(counters.group_count(), 1U);
  EXPECT_EQ(counters.events(), software_events);
}

TEST(Counters, GroupsHoldNoMoreThanAskedAndNoMoreThanFit) {
  for (const auto& [limit, fits] :
       std::vector<std::pair<std::size_t, std::size_t>>{{4, 100}, {8, 3}}) {
    FakeKernel kernel;
    const auto probed = probe(kernel.opener(), skylake_server);
    kernel.set_counters(fits);
    const ThreadCounters counters(probed, with_groups_of(limit), kernel.opener(), skylake_server);
    // None is lost.
    EXPECT_EQ(counters.events().size(), hardware_events.size() + software_events.size());
    std::map<std::size_t, std::size_t> members;
    for (const std::size_t group : counters.group_of()) ++members[group];
    EXPECT_EQ(members[0], software_events.size());
    const std::size_t largest = std::min(limit, fits);
    for (const auto& [group, size] : members) {
      if (group > 0) {
        EXPECT_LE(size, largest);
      }
    }
    EXPECT_EQ(counters.group_count(), 1 + (hardware_events.size() + largest - 1) / largest);
  }
}

TEST(Counters, AnEventThatFailsLaterIsLeftOutAndExplained) {
  FakeKernel kernel;
  const auto probed = probe(kernel.opener(), skylake_server);
  kernel.fail(Event::instructions, EMFILE);
  const ThreadCounters counters(probed, {}, kernel.opener(), skylake_server);
  EXPECT_EQ(counters.events().size(), hardware_events.size() + software_events.size() - 1);
  const Availability& lost = counters.availability()[index_of(Event::instructions)];
  EXPECT_FALSE(lost.available());
  EXPECT_EQ(lost.error_number, EMFILE);
}

TEST(Counters, AWindowIsADifferenceAndKeepsTheRunningRatio) {
  FakeKernel kernel;
  for (std::size_t i = 2; i < first_software_event; ++i) kernel.fail(static_cast<Event>(i), ENOENT);
  const auto probed = probe(kernel.opener(), skylake_server);
  const ThreadCounters counters(probed, {}, kernel.opener(), skylake_server);
  ASSERT_EQ(counters.group_count(), 2U);

  Snapshot begin;
  Snapshot end;
  kernel.answer(Event::task_clock, 1000, 1000, 70);
  kernel.answer(Event::cycles, 1000, 500, 10'000);
  EXPECT_TRUE(counters.read(begin));
  kernel.answer(Event::task_clock, 3000, 3000, 90);
  kernel.answer(Event::cycles, 3000, 1000, 25'000);
  EXPECT_TRUE(counters.read(end));

  EXPECT_EQ(end.values[index_of(Event::task_clock)] - begin.values[index_of(Event::task_clock)],
            20U);
  EXPECT_EQ(end.values[index_of(Event::instructions)], 25'001U);
  EXPECT_EQ(end.values[index_of(Event::cycles)] - begin.values[index_of(Event::cycles)], 15'000U);
  EXPECT_DOUBLE_EQ(running_ratio(begin.groups[0], end.groups[0]), 1.0);
  EXPECT_DOUBLE_EQ(running_ratio(begin.groups[1], end.groups[1]), 0.25);
  EXPECT_DOUBLE_EQ(running_ratio({}, {}), 1.0);
}

TEST(Counters, ATornReadIsReported) {
  FakeKernel kernel;
  kernel.fail_all_hardware(ENOENT);
  ThreadCounters counters(probe(kernel.opener(), skylake_server), {}, kernel.opener(),
                          skylake_server);
  Snapshot snapshot;
  kernel.answer(Event::task_clock, 1, 1, 5);
  EXPECT_TRUE(counters.read(snapshot));
  EXPECT_EQ(snapshot.groups[0].error_number, 0);
  FakeKernel gone;
  std::swap(kernel, gone);  // the write ends close with `gone`
  gone = FakeKernel();
  EXPECT_FALSE(counters.read(snapshot));
  EXPECT_EQ(snapshot.groups[0].error_number, EIO);
  EXPECT_EQ(snapshot.values[index_of(Event::task_clock)], 5U);
}

// On a real host any event may be missing; those that are there must make sense.
TEST(Counters, ThisHostCountsOrSaysWhyNot) {
  const auto probed = probe();
  ASSERT_EQ(probed.size(), event_count);
  for (const Availability& event : probed) {
    EXPECT_NE(event.available(), !event.reason.empty()) << name_of(event.event);
  }
  const ThreadCounters counters(probed, {});
  Snapshot begin;
  Snapshot end;
  ASSERT_TRUE(counters.read(begin));
  volatile std::uint64_t sink = 0;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) sink = sink + i;
  ASSERT_TRUE(counters.read(end));
  for (const Event event : counters.events()) {
    EXPECT_GE(end.values[index_of(event)], begin.values[index_of(event)]) << name_of(event);
  }
  if (counters.availability()[index_of(Event::task_clock)].available()) {
    EXPECT_GT(end.values[index_of(Event::task_clock)], begin.values[index_of(Event::task_clock)]);
  }
}

constexpr CpuIdentity ice_lake{true, 6, 0x6a};
constexpr CpuIdentity ivy_bridge{true, 6, 0x3e};
constexpr CpuIdentity sapphire_rapids{true, 6, 0x8f};
constexpr CpuIdentity rome{false, 0x17, 0x31, true};
constexpr CpuIdentity genoa{false, 0x19, 0x11, true};
constexpr CpuIdentity sandy_bridge{true, 6, 0x2d};
constexpr CpuIdentity zen{false, 0x19, 0x01, true};
constexpr CpuIdentity arm{false, 0, 0, false, true};

std::uint64_t code_of(Event event, const CpuIdentity& cpu) {
  perf_event_attr attributes{};
  return detail::encode(event, cpu, attributes) && attributes.type == PERF_TYPE_RAW
             ? attributes.config
             : 0;
}

TEST(Probe, RawCodesAreUsedWhereTheManualListsThem) {
  EXPECT_EQ(code_of(Event::remote_dram, ice_lake), 0x02d3U);
  EXPECT_EQ(code_of(Event::remote_dram, sandy_bridge), 0x04d3U);
  EXPECT_EQ(code_of(Event::local_dram, ivy_bridge), 0x03d3U);
  EXPECT_EQ(code_of(Event::remote_dram, ivy_bridge), 0x0cd3U);
  EXPECT_EQ(code_of(Event::cycles_l3_miss, sapphire_rapids), 0x01001020U);
  EXPECT_EQ(code_of(Event::remote_hitm, sapphire_rapids), 0x04d3U);
  EXPECT_EQ(code_of(Event::remote_chip_accesses, arm), 0x31U);
  // Lines that loads and stores get are no retired loads.
  EXPECT_EQ(code_of(Event::local_dram, zen), 0U);
  EXPECT_EQ(code_of(Event::memory_accesses, zen), 0x4843U);
  EXPECT_EQ(code_of(Event::memory_misses, zen), 0x4043U);
  // Generations of one family differ.
  EXPECT_EQ(code_of(Event::llc_misses, rome), 0x5843U);
  EXPECT_EQ(code_of(Event::llc_misses, zen), 0x5c43U);
  EXPECT_EQ(code_of(Event::llc_misses, genoa), 0xdc43U);
  EXPECT_EQ(code_of(Event::l1i_misses, genoa), 0x10000188eU);
  for (const CpuIdentity& cpu : {sandy_bridge, zen, arm, other_cpu}) {
    EXPECT_EQ(code_of(Event::cycles_mem_any, cpu), 0U);
  }
  EXPECT_EQ(code_of(Event::local_dram, other_cpu), 0U);
}

TEST(Probe, OffcoreResponsesHaveTheirRegister) {
  perf_event_attr attributes{};
  ASSERT_TRUE(detail::encode(Event::memory_misses, sapphire_rapids, attributes));
  EXPECT_EQ(attributes.config, 0x012aU);
  EXPECT_EQ(attributes.config1, 0x738000001U);
  ASSERT_TRUE(detail::encode(Event::memory_misses, skylake_server, attributes));
  EXPECT_EQ(attributes.config, 0x01b7U);
  EXPECT_EQ(attributes.config1, 0x63b800001U);
}

TEST(Counters, GroupsTakeTurnsWhenTold) {
  FakeKernel kernel;
  const auto probed = probe(kernel.opener(), skylake_server);
  ThreadCounters counters(probed, with_groups_of(4), kernel.opener(), skylake_server);
  const std::size_t turns = (hardware_events.size() + 3) / 4;
  ASSERT_EQ(counters.group_count(), 1 + turns);  // one of software events
  ASSERT_EQ(counters.turns(), turns);
  const auto active_groups = [&](const Snapshot& snapshot) {
    std::vector<std::size_t> groups;
    for (std::size_t group = 0; group < counters.group_count(); ++group) {
      if (snapshot.groups[group].active) groups.push_back(group);
    }
    return groups;
  };
  const auto first_of = [&](std::size_t group) {
    const auto at = std::find(counters.group_of().begin(), counters.group_of().end(), group);
    return counters.events()[static_cast<std::size_t>(at - counters.group_of().begin())];
  };
  for (std::size_t turn = 0; turn <= turns; ++turn, counters.rotate()) {
    const std::size_t own = 1 + turn % turns;
    Snapshot begin, end;
    for (Snapshot* snapshot : {&begin, &end}) {
      const std::uint64_t now = snapshot == &begin ? 100 : 200;
      kernel.answer(first_of(0), now, now, 10 * now);
      kernel.answer(first_of(own), now, now, now);
      ASSERT_TRUE(counters.read(*snapshot));
      EXPECT_EQ(active_groups(*snapshot), (std::vector<std::size_t>{0, own}));
    }
    for (std::size_t group = 0; group <= turns; ++group) {
      const double expected = group == 0 || group == own ? 1.0 : 0.0;
      EXPECT_EQ(running_ratio(begin.groups[group], end.groups[group]), expected);
    }
  }
  ThreadCounters::Options kernels_way;
  kernels_way.rotate = false;
  ThreadCounters by_kernel(probed, kernels_way, kernel.opener(), skylake_server);
  EXPECT_EQ(by_kernel.turns(), 1U);
}

}  // namespace
}  // namespace pmoss::pmu
