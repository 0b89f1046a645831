// Memory channels and links of hosts that exist as files only.
#include "pmu/offcore.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pmoss::pmu {
namespace {

namespace fs = std::filesystem;

class Offcore : public testing::Test {
 protected:
  Offcore() {
    std::string name = (fs::temp_directory_path() / "pmoss_offcore_XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    write("sys/devices/system/cpu/online", "0-3");
    for (int cpu = 0; cpu < 4; ++cpu) {
      const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
      write(folder + "/topology/physical_package_id", std::to_string(cpu / 2));
      write(folder + "/topology/core_id", std::to_string(cpu));
    }
    write("sys/devices/system/node/online", "0-1");
    write("sys/devices/system/node/node0/cpulist", "0-1");
    write("sys/devices/system/node/node1/cpulist", "2-3");
  }
  ~Offcore() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }

  void add_unit(const std::string& name, int type, const std::string& cpus,
                const std::string& second_field) {
    const fs::path unit = fs::path("sys/bus/event_source/devices") / name;
    write(unit / "type", std::to_string(type));
    write(unit / "cpumask", cpus);
    write(unit / "format/event", "config:0-7");
    write(unit / "format" / second_field, "config:8-15");
  }

  /// Every event counts from the moment at which it is opened; this is its file.
  CpuOpener opener() {
    return [this](perf_event_attr& attributes, int cpu) {
      if (refusal_ != 0) return -refusal_;
      const int file = ::memfd_create("count", MFD_CLOEXEC);
      opened_[{attributes.type, attributes.config}].push_back({cpu, ::dup(file)});
      return file;
    };
  }
  void count(std::uint32_t type, std::uint64_t config, std::uint64_t value,
             std::uint64_t enabled = 100, std::uint64_t running = 100) {
    const OffcoreCounters::Counts counts{value, enabled, running};
    for (const auto& [cpu, file] : opened_[{type, config}]) {
      ASSERT_EQ(::pwrite(file, &counts, sizeof counts, 0), static_cast<ssize_t>(sizeof counts));
      ASSERT_EQ(::lseek(file, 0, SEEK_SET), 0);
    }
  }
  void list(const std::string& unit, const std::string& event, const std::string& text) {
    write(fs::path("sys/bus/event_source/devices") / unit / "events" / event, text);
  }
  /// Bytes by name of the quantities that ran, all since they were opened.
  static std::map<std::string, double> bytes_of(const OffcoreCounters& counters) {
    const auto end = counters.read();
    const std::vector<OffcoreCounters::Counts> begin(end.size());
    const auto quantities = counters.quantities_between(begin, end);
    const auto bytes = counters.bytes_between(begin, end);
    std::map<std::string, double> result;
    for (std::size_t i = 0; i < quantities.size(); ++i) {
      EXPECT_NE(quantities[i].available(), !quantities[i].reason.empty());
      if (quantities[i].available()) result[quantities[i].name] = bytes[i];
    }
    return result;
  }

  fs::path root_;
  int refusal_ = 0;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::pair<int, int>>> opened_;
};

constexpr CpuIdentity skylake{true, 6, 0x55};
constexpr CpuIdentity granite_rapids{true, 6, 0xad};
constexpr CpuIdentity unknown{};
constexpr CpuIdentity milan{false, 0x19, 0x01, true};
constexpr CpuIdentity genoa{false, 0x19, 0x11, true};
constexpr CpuIdentity arm{false, 0, 0, false, true};
using Bytes = std::map<std::string, double>;

TEST_F(Offcore, AHostWithoutSuchCountersHasNone) {
  const OffcoreCounters counters(root_, opener(), skylake);
  EXPECT_TRUE(counters.quantities().empty());
  EXPECT_TRUE(counters.read().empty());
  EXPECT_NO_THROW(OffcoreCounters().read());  // this host, whatever it has
}

TEST_F(Offcore, ChannelsOfANodeAreAddedUp) {
  // Each unit's mask names one CPU per socket.
  for (const auto& [unit, type] : std::map<std::string, int>{
           {"uncore_imc_0", 20}, {"uncore_imc_1", 21}, {"uncore_imc_free_running_0", 22}}) {
    add_unit(unit, type, "0,2", "umask");
    list(unit, "cas_count_read", "event=0x04,umask=0x03");
    list(unit, "cas_count_write", "event=0x04,umask=0x0c");
  }
  add_unit("uncore_upi_0", 23, "0,2", "umask");
  const OffcoreCounters counters(root_, opener(), skylake);
  ASSERT_EQ(counters.quantities().size(), 8U);  // two nodes: read, write, link in, link out
  EXPECT_FALSE(opened_.contains({22, 0x0304}));
  count(20, 0x0304, 1000);
  count(21, 0x0304, 500);
  count(20, 0x0c04, 0);
  count(21, 0x0c04, 0);
  count(23, 0x0f02, 90);
  count(23, 0x0f03, 0);
  Bytes bytes = bytes_of(counters);
  EXPECT_EQ(bytes.size(), 8U);
  EXPECT_DOUBLE_EQ(bytes["node0_read_gb_per_s"], 1500.0 * 64.0);
  EXPECT_DOUBLE_EQ(bytes["node1_read_gb_per_s"], 1500.0 * 64.0);
  EXPECT_DOUBLE_EQ(bytes["node0_write_gb_per_s"], 0.0);
  EXPECT_DOUBLE_EQ(bytes["node1_link_out_gb_per_s"], 640.0);
}

TEST_F(Offcore, BothSchedulersOfGraniteRapidsAreAddedUp) {
  add_unit("uncore_imc_0", 20, "0", "umask");
  list("uncore_imc_0", "cas_count_read_sch0", "event=0x05,umask=0xcf");
  list("uncore_imc_0", "cas_count_read_sch1", "event=0x06,umask=0xcf");
  for (const std::string sch : {"sch0", "sch1"}) {
    list("uncore_imc_0", "cas_count_read_" + sch + ".scale", "6.103515625e-5");
    list("uncore_imc_0", "cas_count_read_" + sch + ".unit", "MiB");
  }
  add_unit("uncore_upi_0", 23, "0", "umask");
  const OffcoreCounters counters(root_, opener(), granite_rapids);
  EXPECT_EQ(opened_.size(), 4U);  // and its links, both ways
  count(20, 0xcf05, 10);
  count(20, 0xcf06, 32);
  EXPECT_EQ(bytes_of(counters), (Bytes{{"node0_read_gb_per_s", 42.0 * 64.0}}));
}

TEST_F(Offcore, AnUnknownModelIsAskedForWhatTheKernelListsAlone) {
  add_unit("uncore_imc_0", 20, "0", "umask");
  add_unit("uncore_upi_0", 23, "0", "umask");
  add_unit("amd_umc_0", 30, "0", "rdwrmask");
  const OffcoreCounters counters(root_, opener(), unknown);
  EXPECT_TRUE(counters.quantities().empty());
  EXPECT_TRUE(opened_.empty());
}

TEST_F(Offcore, AnEventThatSharedItsCounterIsScaled) {
  add_unit("uncore_imc_0", 20, "0", "umask");
  list("uncore_imc_0", "cas_count_read", "event=0x04,umask=0x03");
  const OffcoreCounters counters(root_, opener(), skylake);
  count(20, 0x0304, 10, 400, 100);
  EXPECT_EQ(bytes_of(counters), (Bytes{{"node0_read_gb_per_s", 40.0 * 64.0}}));
}

TEST_F(Offcore, WhatNeverRanIsNotAvailableAndNeitherIsASumThatMissesIt) {
  for (const auto& [unit, type] :
       std::map<std::string, int>{{"uncore_imc_0", 20}, {"uncore_imc_1", 21}}) {
    add_unit(unit, type, "0", "umask");
    list(unit, "cas_count_read", "event=0x04,umask=0x03");
    list(unit, "cas_count_write", "event=0x04,umask=0x0c");
  }
  const OffcoreCounters counters(root_, opener(), skylake);
  for (const std::uint32_t type : {20U, 21U}) count(type, 0x0c04, 1);
  count(20, 0x0304, 1000);
  count(21, 0x0304, 0, 100, 0);
  EXPECT_EQ(bytes_of(counters), (Bytes{{"node0_write_gb_per_s", 128.0}}));
}

TEST_F(Offcore, AmdsControllersAreKnown) {
  add_unit("amd_umc_0", 30, "0", "rdwrmask");
  add_unit("amd_umc_1", 31, "2", "rdwrmask");
  const OffcoreCounters counters(root_, opener(), genoa);
  ASSERT_EQ(counters.quantities().size(), 4U);
  EXPECT_EQ(counters.quantities()[0].name, "node0_read_gb_per_s");
  EXPECT_TRUE(opened_.contains({30, 0x010a}));
  EXPECT_TRUE(opened_.contains({31, 0x020a}));
}

TEST_F(Offcore, AmdsFabricCountsTheChannelsBeforeZenFour) {
  add_unit("amd_df", 40, "0,2", "umask");
  // A code of more than eight bits is spread.
  write("sys/bus/event_source/devices/amd_df/format/event", "config:0-7,32-35,59-60");
  const OffcoreCounters counters(root_, opener(), milan);
  EXPECT_EQ(counters.quantities().size(), 2U);
  EXPECT_EQ(opened_.size(), 8U);
  ASSERT_TRUE(opened_.contains({40, 0x3807}));
  ASSERT_TRUE(opened_.contains({40, 0x1000038c7}));  // channel 7
  for (const auto& [code, files] : opened_) count(code.first, code.second, 3, 200, 100);
  EXPECT_EQ(bytes_of(counters), (Bytes{{"node0_memory_gb_per_s", 8 * 6 * 64.0},
                                       {"node1_memory_gb_per_s", 8 * 6 * 64.0}}));
  opened_.clear();
  EXPECT_TRUE(OffcoreCounters(root_, opener(), genoa).quantities().empty());
}

TEST_F(Offcore, GraceAndArmsMeshCountWhatTheKernelLists) {
  add_unit("nvidia_scf_pmu_0", 50, "0", "unused");
  list("nvidia_scf_pmu_0", "cmem_rd_data", "event=0x1a5");
  list("nvidia_scf_pmu_0", "cmem_wr_total_bytes", "event=0x1db");
  list("nvidia_scf_pmu_0", "bus_cycles", "event=0x1d");
  write("sys/bus/event_source/devices/nvidia_scf_pmu_0/format/event", "config:0-31");
  add_unit("arm_cmn_0", 51, "2", "unused");
  list("arm_cmn_0", "hnf_mc_reqs", "type=0x5,eventid=0xd");
  write("sys/bus/event_source/devices/arm_cmn_0/format/type", "config:0-15");
  write("sys/bus/event_source/devices/arm_cmn_0/format/eventid", "config:16-26");
  const OffcoreCounters counters(root_, opener(), arm);
  EXPECT_EQ(opened_.size(), 3U);
  count(50, 0x1a5, 10);
  count(50, 0x1db, 77);
  count(51, 0xd0005, 2);
  EXPECT_EQ(bytes_of(counters), (Bytes{{"node0_read_gb_per_s", 320.0},
                                       {"node0_write_gb_per_s", 77.0},
                                       {"node1_memory_gb_per_s", 128.0}}));
}

TEST_F(Offcore, ChannelsOfASocketWithSeveralNodesAreTheSockets) {
  // One socket of two nodes; the kernel names one CPU for each unit.
  for (int cpu = 0; cpu < 4; ++cpu) {
    write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/physical_package_id",
          "0");
  }
  add_unit("amd_df", 40, "0", "umask");
  write("sys/bus/event_source/devices/amd_df/format/event", "config:0-7,32-35,59-60");
  add_unit("uncore_imc_0", 20, "0", "umask");
  list("uncore_imc_0", "cas_count_read", "event=0x04,umask=0x03");
  const auto names_of = [](const OffcoreCounters& counters) {
    std::vector<std::string> names;
    for (const OffcoreQuantity& quantity : counters.quantities()) names.push_back(quantity.name);
    return names;
  };
  EXPECT_EQ(names_of(OffcoreCounters(root_, opener(), milan)),
            (std::vector<std::string>{"socket0_memory_gb_per_s", "socket0_read_gb_per_s"}));
  // Where the units of a kind have a CPU on each node, each belongs to its node.
  add_unit("uncore_imc_1", 21, "2", "umask");
  list("uncore_imc_1", "cas_count_read", "event=0x04,umask=0x03");
  EXPECT_EQ(names_of(OffcoreCounters(root_, opener(), milan)),
            (std::vector<std::string>{"socket0_memory_gb_per_s", "node0_read_gb_per_s",
                                      "node1_read_gb_per_s"}));
}

TEST_F(Offcore, MissingRightsAreAReason) {
  add_unit("uncore_upi_0", 20, "0", "umask");
  refusal_ = EACCES;
  const OffcoreCounters counters(root_, opener(), skylake);
  ASSERT_EQ(counters.quantities().size(), 2U);
  for (const auto& quantity : counters.quantities()) {
    EXPECT_FALSE(quantity.available());
    EXPECT_NE(quantity.reason.find("not permitted"), std::string::npos);
  }
  EXPECT_EQ(counters.bytes_between({}, {}), std::vector<double>(2, 0.0));
}

}  // namespace
}  // namespace pmoss::pmu
