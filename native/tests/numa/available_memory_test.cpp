#include "numa/available_memory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>

namespace pmoss::numa {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(AvailableMemory, IsTheSmallerOfTheKernelsAndTheControlGroups) {
  const fs::path root = fs::path(::testing::TempDir()) / "available_memory_test";
  fs::remove_all(root);
  EXPECT_EQ(available_memory(root), std::numeric_limits<std::uint64_t>::max());
  write(root / "proc/meminfo", "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable: 3000 kB\n");
  EXPECT_EQ(available_memory(root), 3000u * 1024);
  write(root / "sys/fs/cgroup/memory.max", "max\n");
  write(root / "sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(available_memory(root), 3000u * 1024);
  write(root / "sys/fs/cgroup/memory.max", "5000\n");
  EXPECT_EQ(available_memory(root), 4000u);
  write(root / "sys/fs/cgroup/memory.current", "6000\n");
  EXPECT_EQ(available_memory(root), 0u);
  fs::remove_all(root);
}

TEST(AvailableMemory, RefusesWithSizesAndAWayOut) {
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
