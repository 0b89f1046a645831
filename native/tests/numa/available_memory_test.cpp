#include "numa/available_memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

namespace pmoss::numa {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory()
      : root(fs::path(::testing::TempDir()) /
             ("available_memory_" +
              std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::remove_all(root);
  }
  ~AvailableMemory() override { fs::remove_all(root); }

  void put(const std::string& path, const std::string& text) const { write(root / path, text); }
  /// A group of version 2, all of whose use but `cache` is held.
  void put_group(const std::string& path, const std::string& limit, int used, int cache) const {
    put(path + "/memory.max", limit + "\n");
    put(path + "/memory.current", std::to_string(used) + "\n");
    put(path + "/memory.stat", "anon 1\nfile 999999\nactive_file " + std::to_string(cache) +
                                   "\ninactive_file 0\nslab_reclaimable 0\n");
  }

  const fs::path root;
};

TEST_F(AvailableMemory, IsUnlimitedWhereNothingIsKnown) {
  EXPECT_EQ(available_memory(root), std::numeric_limits<std::uint64_t>::max());
}

TEST_F(AvailableMemory, IsTheSmallerOfTheKernelsAndTheControlGroups) {
  put("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable: 3000 kB\n");
  EXPECT_EQ(available_memory(root), 3000u * 1024);
  put_group("sys/fs/cgroup", "max", 1000, 0);
  EXPECT_EQ(available_memory(root), 3000u * 1024);
  put_group("sys/fs/cgroup", "5000", 1000, 0);
  EXPECT_EQ(available_memory(root), 4000u);
  put_group("sys/fs/cgroup", "5000", 6000, 0);
  EXPECT_EQ(available_memory(root), 0u);
}

TEST_F(AvailableMemory, PageCacheCanBeReclaimed) {
  put_group("sys/fs/cgroup", "5000", 4900, 4000);
  EXPECT_EQ(available_memory(root), 5000u - 900u);
  // The figure of the cache may be newer than that of the use.
  put_group("sys/fs/cgroup", "5000", 4900, 6000);
  EXPECT_EQ(available_memory(root), 5000u);
}

TEST_F(AvailableMemory, EveryGroupAboveTheProcessCounts) {
  put("proc/self/cgroup", "0::/user.slice/job/step\n");
  put_group("sys/fs/cgroup/user.slice/job/step", "9000", 1000, 0);
  put_group("sys/fs/cgroup/user.slice/job", "max", 7000, 0);
  EXPECT_EQ(available_memory(root), 8000u);
  put_group("sys/fs/cgroup/user.slice", "7500", 7000, 0);
  EXPECT_EQ(available_memory(root), 500u);
  // Above this the kernel slows the group down.
  put("sys/fs/cgroup/user.slice/memory.high", "7100\n");
  EXPECT_EQ(available_memory(root), 100u);
}

TEST_F(AvailableMemory, APathOutsideOfTheContainerIsNoHindrance) {
  put("proc/self/cgroup", "0::/../../docker/0123\n");
  put_group("sys/fs/cgroup", "5000", 1000, 0);
  EXPECT_EQ(available_memory(root), 4000u);
}

TEST_F(AvailableMemory, KnowsGroupsOfVersionOne) {
  put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n");
  const std::string group = "sys/fs/cgroup/memory/a/b";
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", "123456\n");
  EXPECT_GT(available_memory(root), std::uint64_t{1} << 60);
  put(group + "/memory.limit_in_bytes", "9000\n");
  put(group + "/memory.usage_in_bytes", "8500\n");
  EXPECT_EQ(available_memory(root), 500u);
  put(group + "/memory.stat", "active_file 1\ntotal_active_file 2000\ntotal_inactive_file 500\n");
  EXPECT_EQ(available_memory(root), 3000u);
  put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9000\n");
  put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "8900\n");
  EXPECT_EQ(available_memory(root), 100u);
}

TEST_F(AvailableMemory, OnlyNodesThatMayBeUsedCount) {
  const std::string nodes = "sys/devices/system/node/";
  put("proc/meminfo", "MemAvailable: 3000 kB\n");
  put(nodes + "has_memory", "0-1\n");
  const std::string node = "Node 0 MemTotal: 2000 kB\nNode 0 MemFree: 100 kB\n";
  put(nodes + "node0/meminfo", node + "Node 0 Active(anon): 900 kB\nNode 0 Active(file): 40 kB\n" +
                                   "Node 0 Inactive(file): 2 kB\nNode 0 SReclaimable: 1 kB\n");
  put(nodes + "node1/meminfo", "Node 1 MemTotal: 2000 kB\nNode 1 MemFree: 1700 kB\n");
  EXPECT_EQ(available_on_node(0, root), 143u * 1024);
  EXPECT_EQ(available_on_node(1, root), 1700u * 1024);
  EXPECT_EQ(available_on_node(2, root), std::nullopt);
  put("proc/self/status", "Name: x\nMems_allowed_list:\t0-1\n");
  EXPECT_EQ(available_memory(root), 3000u * 1024);
  put("proc/self/status", "Name: x\nMems_allowed_list:\t0\n");
  EXPECT_EQ(available_memory(root), 143u * 1024);
}

TEST_F(AvailableMemory, RefusesWithSizesAndAWayOut) {
  require_memory(4096.0, "a page", "take less");
  try {
    require_memory(1e18, "everything", "take less");
    FAIL() << "not refused";
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("everything needs about 931322574.6 GiB of memory, and "), 0u) << text;
    EXPECT_NE(text.find("; take less"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace pmoss::numa
