// Groups that open and get no counters, on a PMU made of pipes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pmu/counters.hpp"

namespace pmoss::pmu {
namespace {

constexpr CpuIdentity skylake_server{true, 6, 0x55};

/// Opens every group, but runs those only that are small enough and hold none of some events.
class FakePmu {
 public:
  explicit FakePmu(std::size_t counters, std::set<Event> never = {})
      : counters_(counters), never_(std::move(never)) {}

  Opener opener() {
    return [this](perf_event_attr& attributes, int group) -> int {
      const Event event = find(attributes);
      if (group >= 0) {
        Leader& leader = leaders_.at(group);
        leader.events.push_back(event);
        tell(group, leader);
        return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      }
      std::array<int, 2> ends{};
      if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return -errno;
      Leader leader;
      leader.write_end = FileDescriptor(ends[1]);
      leader.events.push_back(event);
      tell(ends[0], leader);
      leaders_.insert_or_assign(ends[0], std::move(leader));
      return ends[0];
    };
  }

 private:
  struct Leader {
    FileDescriptor write_end;
    std::vector<Event> events;
  };

  static Event find(const perf_event_attr& wanted) {
    for (std::size_t i = 0; i < event_count; ++i) {
      perf_event_attr attributes{};
      if (detail::encode(static_cast<Event>(i), skylake_server, attributes) &&
          attributes.type == wanted.type && attributes.config == wanted.config) {
        return static_cast<Event>(i);
      }
    }
    ADD_FAILURE() << "unknown event";
    return Event::cycles;
  }

  /// What the next reads of the group say: 20 ms more each time.
  void tell(int read_end, const Leader& leader) {
    std::array<char, 4096> old;
    while (::read(read_end, old.data(), old.size()) > 0) {
    }
    const bool runs = leader.events.size() <= counters_ &&
                      std::none_of(leader.events.begin(), leader.events.end(),
                                   [&](Event event) { return never_.contains(event); });
    for (std::uint64_t read = 1; read <= 6; ++read) {
      const std::uint64_t now = read * 20'000'000;
      std::vector<std::uint64_t> record{leader.events.size(), now, runs ? now : 0};
      record.resize(3 + leader.events.size(), 0);
      const std::size_t bytes = record.size() * sizeof record[0];
      EXPECT_EQ(::write(leader.write_end.get(), record.data(), bytes), static_cast<ssize_t>(bytes));
    }
  }

  std::size_t counters_;
  std::set<Event> never_;
  std::map<int, Leader> leaders_;
};

ThreadCounters checked(FakePmu& pmu) {
  ThreadCounters counters(probe(pmu.opener(), skylake_server), {}, pmu.opener(), skylake_server);
  counters.check_running();
  return counters;
}

std::size_t hardware_events(const ThreadCounters& counters) {
  return static_cast<std::size_t>(
      std::count_if(counters.events().begin(), counters.events().end(),
                    [](Event event) { return index_of(event) < first_software_event; }));
}

TEST(CountersThatRun, AreLeftAsTheyAre) {
  FakePmu pmu(4);
  ThreadCounters counters(probe(pmu.opener(), skylake_server), {}, pmu.opener(), skylake_server);
  const auto events = counters.events();
  const auto groups = counters.group_of();
  counters.check_running();
  EXPECT_EQ(counters.events(), events);
  EXPECT_EQ(counters.group_of(), groups);
}

TEST(CountersThatRun, AreFewerPerGroupWhereAWatchdogHoldsOne) {
  const std::size_t all = [] {
    FakePmu pmu(4);
    return hardware_events(checked(pmu));
  }();
  for (const std::size_t fit : {1U, 2U, 3U}) {
    FakePmu pmu(fit);
    const ThreadCounters counters = checked(pmu);
    EXPECT_EQ(hardware_events(counters), all);  // none is lost
    std::map<std::size_t, std::size_t> members;
    for (std::size_t i = 0; i < counters.events().size(); ++i) {
      if (index_of(counters.events()[i]) < first_software_event) ++members[counters.group_of()[i]];
    }
    for (const auto& [group, count] : members) EXPECT_LE(count, fit);
    EXPECT_EQ(counters.turns(), members.size());
  }
}

TEST(CountersThatRun, AnEventThatNeverDoesIsNotAvailable) {
  FakePmu pmu(4, {Event::instructions, Event::llc_misses});
  const ThreadCounters counters = checked(pmu);
  for (const Event event : {Event::instructions, Event::llc_misses}) {
    const Availability& lost = counters.availability()[index_of(event)];
    EXPECT_FALSE(lost.available());
    EXPECT_EQ(lost.reason, detail::never_ran);
    EXPECT_EQ(std::count(counters.events().begin(), counters.events().end(), event), 0);
  }
  EXPECT_TRUE(counters.availability()[index_of(Event::cycles)].available());
}

TEST(CountersThatRun, WithoutAnyOnlyTheKernelsEventsRemain) {
  FakePmu pmu(0);
  const ThreadCounters counters = checked(pmu);
  EXPECT_EQ(hardware_events(counters), 0U);
  EXPECT_EQ(counters.group_count(), 1U);
  EXPECT_TRUE(counters.availability()[index_of(Event::task_clock)].available());
}

TEST(ProbeDescriptors, TheirLimitIsRaisedToTheMostThatIsAllowedAndPutBack) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto limit = [] {
    rlimit now{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
    return now.rlim_cur;
  };
  {
    const RaisedDescriptorLimit raised;
    EXPECT_EQ(limit(), before.rlim_max);
    {
      const RaisedDescriptorLimit again;
    }
    EXPECT_EQ(limit(), before.rlim_max);
  }
  EXPECT_EQ(limit(), low.rlim_cur);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace pmoss::pmu
