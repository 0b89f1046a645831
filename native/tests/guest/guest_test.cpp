// What only the guest has: nodes, CPUs and distances that are known beforehand.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "numa/memory.hpp"
#include "numa/sysfs.hpp"
#include "numa/topology.hpp"

namespace pmoss::numa {
namespace {

int expected(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

class Guest : public testing::Test {
 protected:
  void SetUp() override {
    if (expected("PMOSS_GUEST_NODES") == 0) GTEST_SKIP() << "only in the guest";
  }
};

TEST_F(Guest, TheTopologyIsTheOneThatWasAskedFor) {
  const auto nodes = static_cast<std::size_t>(expected("PMOSS_GUEST_NODES"));
  const auto per_node = static_cast<std::size_t>(expected("PMOSS_GUEST_CPUS"));
  const Topology topology = read_topology();
  ASSERT_EQ(topology.nodes.size(), nodes);
  ASSERT_EQ(topology.cpus.size(), nodes * per_node);
  EXPECT_EQ(memory_nodes().size(), nodes);
  for (std::size_t n = 0; n < nodes; ++n) {
    EXPECT_EQ(topology.nodes[n].cpus.size(), per_node);
    ASSERT_EQ(topology.nodes[n].distances.size(), nodes);
    for (std::size_t m = 0; m < nodes; ++m) {
      // Pairs of neighbours are near, the rest is far; the launcher says so to QEMU.
      const int distance = n == m ? 10 : n / 2 == m / 2 ? 12 : 21;
      EXPECT_EQ(topology.nodes[n].distances[m], distance) << n << " to " << m;
    }
  }
}

// The launcher makes these lines files again, which the importer of machines then reads.
TEST_F(Guest, TellsItsFiles) {
  namespace fs = std::filesystem;
  std::size_t files = 0;
  for (const char* root : {"/sys/devices/system/node", "/sys/devices/system/cpu"}) {
    for (auto at = fs::recursive_directory_iterator(root); at != fs::recursive_directory_iterator();
         ++at) {
      const fs::path& path = at->path();
      if (at.depth() > 3 || at->is_symlink()) {
        at.disable_recursion_pending();
        continue;
      }
      if (!at->is_regular_file() || path.string().find("/power/") != std::string::npos) continue;
      const auto text = sysfs::read_text(path);
      if (!text || text->empty()) continue;
      std::string line = *text;
      for (char& c : line) c = c == '\n' ? '\t' : c;
      std::printf("FILE %s %s\n", path.c_str(), line.c_str());
      ++files;
    }
  }
  EXPECT_GT(files, 20U);
}

}  // namespace
}  // namespace pmoss::numa
