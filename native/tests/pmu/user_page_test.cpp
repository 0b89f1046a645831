// Reading counters without system calls, on pages and a processor made of plain memory.
#include "pmu/user_page.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <vector>

#include "pmu/counters.hpp"
#include "pmu/event_names.hpp"

namespace pmoss::pmu {
namespace {

std::map<std::uint32_t, std::uint64_t> registers;
std::uint64_t clock_ticks = 0;
perf_event_mmap_page* changes_once = nullptr;

// The kernel moves the event to another counter between two looks at the page.
std::uint64_t fake_counter(std::uint32_t number) {
  if (changes_once != nullptr) {
    changes_once->lock += 2;
    changes_once->offset += 1000;
    changes_once = nullptr;
  }
  return registers.at(number);
}
std::uint64_t fake_ticks() { return clock_ticks; }
constexpr UserPage::Processor fake_processor{fake_counter, fake_ticks};

UserPage::Page make_page(std::uint32_t counter) {
  auto page = std::make_shared<perf_event_mmap_page>();
  page->cap_user_rdpmc = 1;
  page->cap_user_time = 1;
  page->index = counter + 1;
  page->pmc_width = 48;
  page->offset = 5000;
  page->time_enabled = 70;
  page->time_running = 60;
  page->time_shift = 10;
  page->time_mult = 512;  // half a nanosecond per tick
  return page;
}

TEST(CountersUserPage, AddsTheRegisterToTheOffsetAndTheClockToTheTimes) {
  const auto page = make_page(3);
  registers = {{3, 42}};
  clock_ticks = 2000;
  UserPage::Value value{};
  ASSERT_TRUE(UserPage(page, fake_processor).read(value));
  EXPECT_EQ(value.count, 5042U);
  EXPECT_EQ(value.enabled_ns, 70U + 1000U);
  EXPECT_EQ(value.running_ns, 60U + 1000U);
  // Registers count up from below zero: 48 bits, sign-extended.
  registers = {{3, (std::uint64_t{1} << 48) - 8}};
  ASSERT_TRUE(UserPage(page, fake_processor).read(value));
  EXPECT_EQ(value.count, 4992U);
}

TEST(CountersUserPage, IsReadAgainIfTheKernelChangedItMeanwhile) {
  const auto page = make_page(3);
  registers = {{3, 42}};
  changes_once = page.get();
  UserPage::Value value{};
  ASSERT_TRUE(UserPage(page, fake_processor).read(value));
  EXPECT_EQ(value.count, 6042U);
}

TEST(CountersUserPage, IsLeftToTheKernelWhereThatIsRight) {
  UserPage::Value value{};
  const auto page = make_page(3);
  EXPECT_TRUE(UserPage(page, fake_processor).usable());
  page->index = 0;  // on no counter at the moment
  EXPECT_FALSE(UserPage(page, fake_processor).read(value));
  page->cap_user_rdpmc = 0;
  EXPECT_FALSE(UserPage(page, fake_processor).usable());
  EXPECT_FALSE(UserPage(nullptr, fake_processor).usable());
  EXPECT_FALSE(UserPage(make_page(1), UserPage::Processor{}).usable());
  // A page of this host's kernel may be there or not; it never crashes.
  UserPage(system_mapper()(-1), this_processor()).usable();
}

TEST(CountersUserPage, AGroupIsReadWithoutTheKernelWhileItCan) {
  // These descriptors cannot be read: a read() of the group would fail.
  std::map<int, UserPage::Page> pages;
  std::uint32_t next = 0;
  const Opener opener = [](perf_event_attr&, int) { return ::open("/dev/null", O_RDONLY); };
  std::vector<Availability> probed(event_count);
  for (std::size_t i = 0; i < event_count; ++i) probed[i].event = static_cast<Event>(i);
  for (const Event event : {Event::cycles, Event::instructions}) {
    probed[index_of(event)].source = Availability::Source::hardware;
  }
  ThreadCounters::Options options;
  options.processor = fake_processor;
  options.map = [&](int descriptor) { return pages[descriptor] = make_page(next++); };
  const ThreadCounters counters(probed, options, opener, CpuIdentity{});
  EXPECT_EQ(counters.user_read_groups(), 1U);
  registers = {{0, 7}, {1, 9}};
  clock_ticks = 0;
  Snapshot snapshot;
  EXPECT_TRUE(counters.read(snapshot));
  EXPECT_EQ(snapshot.values[index_of(Event::cycles)], 5007U);
  EXPECT_EQ(snapshot.values[index_of(Event::instructions)], 5009U);
  EXPECT_EQ(snapshot.groups[0].running_ns, 60U);
  for (const auto& [descriptor, page] : pages) page->index = 0;
  EXPECT_FALSE(counters.read(snapshot));  // the kernel is asked, and /dev/null says nothing

  options.user_reads = false;
  EXPECT_EQ(ThreadCounters(probed, options, opener, CpuIdentity{}).user_read_groups(), 0U);
}

TEST(ProbeNames, ALibraryKnowsWhatOurTableDoesNot) {
  std::vector<std::string> asked;
  const NameEncoder names = [&](const std::string& name, perf_event_attr& attributes) {
    asked.push_back(name);
    if (name != "MEM_LOAD_UOPS_L3_MISS_RETIRED:REMOTE_DRAM") return false;
    attributes.type = PERF_TYPE_RAW;
    attributes.config = 0x10d3;
    return true;
  };
  std::vector<std::uint64_t> raw;
  const Opener opener = [&](perf_event_attr& attributes, int) {
    if (attributes.type == PERF_TYPE_RAW) raw.push_back(attributes.config);
    return ::open("/dev/null", O_RDONLY);
  };
  const auto answers = probe(opener, CpuIdentity{}, names);
  EXPECT_TRUE(answers[index_of(Event::remote_dram)].available());
  EXPECT_FALSE(answers[index_of(Event::local_dram)].available());
  EXPECT_EQ(raw, (std::vector<std::uint64_t>{0x10d3}));
  EXPECT_EQ(asked.front(), "MEM_LOAD_L3_MISS_RETIRED:LOCAL_DRAM");
}

TEST(ProbeNames, TheInstalledLibraryEncodesTheKernelsOwnNames) {
  if (!libpfm_encoder()) GTEST_SKIP() << "libpfm4 is not installed";
  perf_event_attr attributes{};
  ASSERT_TRUE(libpfm_encoder()("perf::PERF_COUNT_SW_PAGE_FAULTS", attributes));
  EXPECT_EQ(attributes.type, static_cast<std::uint32_t>(PERF_TYPE_SOFTWARE));
  EXPECT_EQ(attributes.config, static_cast<std::uint64_t>(PERF_COUNT_SW_PAGE_FAULTS));
  EXPECT_FALSE(libpfm_encoder()("NO_SUCH_EVENT", attributes));
}

}  // namespace
}  // namespace pmoss::pmu
