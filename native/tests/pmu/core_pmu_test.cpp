// The PMUs of cores on hosts that exist as files only, and codes for them.
#include "pmu/core_pmu.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "pmu/events.hpp"
#include "pmu/sysfs_events.hpp"

namespace pmoss::pmu {
namespace {

namespace fs = std::filesystem;

class CorePmus : public testing::Test {
 protected:
  CorePmus() {
    std::string name = (fs::temp_directory_path() / "pmoss_core_pmu_XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  ~CorePmus() override { fs::remove_all(root_); }

  void write(const std::string& unit, const fs::path& file, const std::string& text) {
    const fs::path path = folder(unit) / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  fs::path folder(const std::string& unit) const {
    return root_ / "sys/bus/event_source/devices" / unit;
  }

  fs::path root_;
};

TEST_F(CorePmus, OneKindOfCoreHasOneUnit) {
  EXPECT_FALSE(core_pmu_of(0, root_).has_value());
  write("cpu", "type", "4");
  write("uncore_imc_0", "type", "20");
  const auto pmu = core_pmu_of(3, root_);
  ASSERT_TRUE(pmu.has_value());
  EXPECT_EQ(pmu->name, "cpu");
  EXPECT_FALSE(pmu->one_of_several);
}

TEST_F(CorePmus, AHybridsCpuIsOnOneOfItsUnits) {
  write("cpu_core", "type", "4");
  write("cpu_core", "cpus", "0-7");
  write("cpu_atom", "type", "10");
  write("cpu_atom", "cpus", "8-15");
  EXPECT_EQ(core_pmu_of(7, root_)->name, "cpu_core");
  const auto atom = core_pmu_of(8, root_);
  EXPECT_EQ(atom->type, 10U);
  EXPECT_TRUE(atom->one_of_several);
  EXPECT_FALSE(core_pmu_of(99, root_).has_value());
}

TEST_F(CorePmus, ArmsCommonEventsAreThoseThatTheKernelLists) {
  write("armv8_pmuv3_0", "type", "8");
  write("armv8_pmuv3_0", "cpus", "0-3");
  write("armv8_pmuv3_0", "events/cpu_cycles", "event=0x0011");
  write("armv8_pmuv3_0", "events/inst_retired", "event=0x0008");
  write("armv8_pmuv3_0", "events/sample_pop", "event=0x4000");
  EXPECT_EQ(core_pmu_of(0, root_)->arm_events, (1ULL << 0x11) | (1ULL << 0x08));
  EXPECT_EQ(core_pmu_of(0, root_)->arm_extended_events, 1ULL);
}

perf_event_attr encoded(Event event, const CpuIdentity& cpu) {
  perf_event_attr attributes{};
  EXPECT_TRUE(detail::encode(event, cpu, attributes));
  return attributes;
}

TEST_F(CorePmus, AnEventIsThatOfTheCoreThatRunsIt) {
  CpuIdentity atom{true, 6, 0x55};
  atom.core_pmu = 10;
  EXPECT_EQ(encoded(Event::cycles, atom).config,
            std::uint64_t{10} << 32 | PERF_COUNT_HW_CPU_CYCLES);
  EXPECT_EQ(encoded(Event::local_dram, atom).type, 10U);
  EXPECT_EQ(encoded(Event::local_dram, atom).config, 0x01d3U);
  EXPECT_EQ(encoded(Event::task_clock, atom).config,
            static_cast<std::uint64_t>(PERF_COUNT_SW_TASK_CLOCK));
  // A library that knows the other kind of core only says nothing of this one.
  CpuIdentity unknown{};
  unknown.core_pmu = 10;
  EXPECT_EQ(encoded(Event::l1d_misses, unknown).config >> 32, 10U);
  const NameEncoder other_core = [](const std::string&, perf_event_attr& attributes) {
    attributes.type = 4;
    return true;
  };
  perf_event_attr attributes{};
  EXPECT_FALSE(detail::encode(Event::local_dram, unknown, other_core, attributes));
}

TEST_F(CorePmus, AnArmEventThatIsNotImplementedIsNotAskedFor) {
  CpuIdentity arm{false, 0, 0, false, true};
  EXPECT_EQ(encoded(Event::llc_misses, arm).config, 0x37U);
  EXPECT_EQ(encoded(Event::memory_stall_cycles, arm).config, 0x4005U);
  arm.arm_events = 0;
  arm.arm_extended_events = 0;
  // The kernel's own event is refused where it does not exist.
  EXPECT_EQ(encoded(Event::llc_misses, arm).type, std::uint32_t{PERF_TYPE_HW_CACHE});
  perf_event_attr attributes{};
  EXPECT_FALSE(detail::encode(Event::memory_stall_cycles, arm, attributes));
}

TEST_F(CorePmus, FieldsAreReadAndPutWhereTheirFormatSays) {
  EXPECT_EQ(parse_event("event=0x05,umask=207,inv"),
            (EventFields{{"event", 5}, {"umask", 207}, {"inv", 1}}));
  for (const char* const wrong : {"", "event=0xg", "=3", "event=-1", "a=1,,b=2"}) {
    EXPECT_FALSE(parse_event(wrong).has_value()) << wrong;
  }
  write("unit", "format/event", "config:0-7,32-35");
  write("unit", "format/filter", "config1:4");
  write("unit", "format/broken", "config7:4");
  perf_event_attr attributes{};
  EXPECT_TRUE(place_fields(folder("unit"), {{"event", 0xabc}, {"filter", 1}}, attributes));
  EXPECT_EQ(attributes.config, 0xa000000bcU);
  EXPECT_EQ(attributes.config1, 0x10U);
  EXPECT_FALSE(place_fields(folder("unit"), {{"event", 0x1abc}}, attributes));  // too large
  EXPECT_FALSE(place_fields(folder("unit"), {{"broken", 1}}, attributes));
  EXPECT_FALSE(place_fields(folder("unit"), {{"missing", 1}}, attributes));
}

TEST_F(CorePmus, ScalesAreReadWithTheirUnit) {
  write("unit", "events/read", "event=1");
  write("unit", "events/read.scale", "6.103515625e-5");
  EXPECT_FALSE(listed_bytes(folder("unit"), "read").has_value());
  write("unit", "events/read.unit", "MiB");
  EXPECT_DOUBLE_EQ(listed_bytes(folder("unit"), "read").value(), 64.0);
  write("unit", "events/read.unit", "furlongs");
  EXPECT_FALSE(listed_bytes(folder("unit"), "read").has_value());
  EXPECT_EQ(listed_events(folder("unit")).size(), 1U);
}

}  // namespace
}  // namespace pmoss::pmu
