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
  void count(std::uint32_t type, std::uint64_t config, std::uint64_t value) {
    for (const auto& [cpu, file] : opened_[{type, config}]) {
      ASSERT_EQ(::pwrite(file, &value, sizeof value, 0), static_cast<ssize_t>(sizeof value));
      ASSERT_EQ(::lseek(file, 0, SEEK_SET), 0);
    }
  }

  fs::path root_;
  int refusal_ = 0;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::pair<int, int>>> opened_;
};

TEST_F(Offcore, AHostWithoutSuchCountersHasNone) {
  const OffcoreCounters counters(root_, opener());
  EXPECT_TRUE(counters.quantities().empty());
  EXPECT_TRUE(counters.read_bytes().empty());
  EXPECT_NO_THROW(OffcoreCounters().read_bytes());  // this host, whatever it has
}

TEST_F(Offcore, ChannelsOfANodeAreAddedUp) {
  // Each unit's mask names one CPU per socket.
  add_unit("uncore_imc_0", 20, "0,2", "umask");
  add_unit("uncore_imc_1", 21, "0,2", "umask");
  add_unit("uncore_imc_free_running_0", 22, "0,2", "umask");
  add_unit("uncore_upi_0", 23, "0,2", "umask");
  write("sys/bus/event_source/devices/uncore_imc_1/events/cas_count_read", "event=0x05,umask=0xcf");
  const OffcoreCounters counters(root_, opener());
  std::map<std::string, std::size_t> at;
  for (std::size_t i = 0; i < counters.quantities().size(); ++i) {
    EXPECT_TRUE(counters.quantities()[i].available());
    at[counters.quantities()[i].name] = i;
  }
  ASSERT_EQ(at.size(), 8U);  // two nodes: read, write, link in, link out
  EXPECT_FALSE(opened_.contains({22, 0x0304}));
  count(20, 0x0304, 1000);
  count(21, 0xcf05, 500);  // as the kernel lists it
  count(23, 0x0f02, 90);
  const auto bytes = counters.read_bytes();
  EXPECT_DOUBLE_EQ(bytes[at.at("node0_read_gb_per_s")], 1500.0 * 64.0);
  EXPECT_DOUBLE_EQ(bytes[at.at("node1_read_gb_per_s")], 1500.0 * 64.0);
  EXPECT_DOUBLE_EQ(bytes[at.at("node0_write_gb_per_s")], 0.0);
  EXPECT_DOUBLE_EQ(bytes[at.at("node1_link_out_gb_per_s")], 640.0);
}

TEST_F(Offcore, AmdsControllersAreKnown) {
  add_unit("amd_umc_0", 30, "0", "rdwrmask");
  add_unit("amd_umc_1", 31, "2", "rdwrmask");
  const OffcoreCounters counters(root_, opener());
  ASSERT_EQ(counters.quantities().size(), 4U);
  EXPECT_EQ(counters.quantities()[0].name, "node0_read_gb_per_s");
  EXPECT_TRUE(opened_.contains({30, 0x010a}));
  EXPECT_TRUE(opened_.contains({31, 0x020a}));
}

TEST_F(Offcore, MissingRightsAreAReason) {
  add_unit("uncore_imc_0", 20, "0", "umask");
  refusal_ = EACCES;
  const OffcoreCounters counters(root_, opener());
  ASSERT_EQ(counters.quantities().size(), 2U);
  for (const auto& quantity : counters.quantities()) {
    EXPECT_FALSE(quantity.available());
    EXPECT_NE(quantity.reason.find("not permitted"), std::string::npos);
  }
  EXPECT_EQ(counters.read_bytes(), std::vector<double>(2, 0.0));
}

}  // namespace
}  // namespace pmoss::pmu
