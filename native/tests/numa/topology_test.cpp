#include "numa/topology.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "numa/affinity.hpp"
#include "numa/facts.hpp"

namespace pmoss::numa {
namespace {

namespace fs = std::filesystem;

// A tree of files in a folder of its own that goes away with the test.
class Tree {
 public:
  Tree() {
    static int number = 0;
    root_ = fs::temp_directory_path() /
            ("pmoss-topology-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    fs::create_directories(root_);
  }
  ~Tree() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

const std::string cpu_dir = "sys/devices/system/cpu/";
const std::string node_dir = "sys/devices/system/node/";

// 2 packages, 4 nodes, 2 cores per node and 2 threads per core: CPU c and c + 8 are siblings.
// Each node has a last-level cache of its own; CPU 15 is offline.
void write_four_nodes(const Tree& tree) {
  tree.write(cpu_dir + "online", "0-14");
  for (int cpu = 0; cpu < 15; ++cpu) {
    const int core = cpu % 8;
    const int node = core / 2;
    const std::string folder = cpu_dir + "cpu" + std::to_string(cpu) + "/";
    tree.write(folder + "topology/physical_package_id", std::to_string(node / 2));
    tree.write(folder + "topology/core_id", std::to_string(core % 4));
    const std::string pair = std::to_string(core) + "," + std::to_string(core + 8);
    tree.write(folder + "topology/thread_siblings_list", pair);
    const std::string shared = std::to_string(2 * node) + "-" + std::to_string(2 * node + 1) + "," +
                               std::to_string(2 * node + 8) + "-" + std::to_string(2 * node + 9);
    tree.write(folder + "cache/index0/level", "1");
    tree.write(folder + "cache/index0/type", "Data");
    tree.write(folder + "cache/index0/shared_cpu_list", pair);
    tree.write(folder + "cache/index1/level", "3");
    tree.write(folder + "cache/index1/type", "Unified");
    tree.write(folder + "cache/index1/size", "16384K");
    tree.write(folder + "cache/index1/shared_cpu_list", shared);
  }
  tree.write(cpu_dir + "cpufreq/boost", "1");  // a co-tenant whose name only begins with "cpu"
  for (int node = 0; node < 4; ++node) {
    const std::string folder = node_dir + "node" + std::to_string(node) + "/";
    tree.write(folder + "cpulist", std::to_string(2 * node) + "-" + std::to_string(2 * node + 1) +
                                       "," + std::to_string(2 * node + 8) + "-" +
                                       std::to_string(2 * node + 9));
    tree.write(folder + "meminfo", "Node " + std::to_string(node) + " MemTotal:  1024 kB\nNode " +
                                       std::to_string(node) + " MemFree:  512 kB");
    std::string distances;
    for (int other = 0; other < 4; ++other) {
      distances += (other == node ? "10 " : other / 2 == node / 2 ? "12 " : "32 ");
    }
    tree.write(folder + "distance", distances);
  }
}

TEST(CpuList, ReadsRangesAndRefusesNonsense) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list(""), std::vector<int>{});
  for (const char* bad : {"a", "3-1", "1,,2", "-1", "1-", "0-99999999999"}) {
    EXPECT_THROW(parse_cpu_list(bad), TopologyError) << bad;
  }
}

TEST(Topology, ReadsFourNodesOnTwoPackages) {
  const Tree tree;
  write_four_nodes(tree);
  const Topology topology = read_topology(tree.root());
  ASSERT_EQ(topology.cpus.size(), 15U);
  ASSERT_EQ(topology.nodes.size(), 4U);
  ASSERT_EQ(topology.llcs.size(), 4U);

  const Cpu* cpu = topology.find(13);
  ASSERT_NE(cpu, nullptr);
  EXPECT_EQ(cpu->node, 2);
  EXPECT_EQ(cpu->package, 1);
  EXPECT_EQ(cpu->core, 1);
  EXPECT_EQ(cpu->siblings, (std::vector<int>{5, 13}));
  const LastLevelCache& llc = topology.llcs[static_cast<std::size_t>(cpu->llc)];
  EXPECT_EQ(llc.level, 3);
  EXPECT_EQ(llc.size_bytes, 16384U << 10);
  EXPECT_EQ(llc.cpus, (std::vector<int>{4, 5, 12, 13}));

  EXPECT_EQ(topology.find(15), nullptr);
  EXPECT_EQ(topology.find(7)->siblings, std::vector<int>{7});  // its sibling is offline
  EXPECT_EQ(topology.nodes[3].cpus, (std::vector<int>{6, 7, 14}));
  EXPECT_EQ(topology.nodes[1].distances, (std::vector<int>{12, 10, 32, 32}));
  EXPECT_EQ(topology.nodes[0].memory_bytes, 1024U << 10);
}

TEST(Topology, MemoryOnlyNodesAndMissingFilesAreOrdinary) {
  const Tree tree;
  tree.write(cpu_dir + "online", "0-1");
  tree.write(cpu_dir + "cpu0/topology/physical_package_id", "-1");
  tree.write(node_dir + "node0/cpulist", "0-1");
  tree.write(node_dir + "node0/distance", "10 20");
  tree.write(node_dir + "node5/cpulist", "");
  tree.write(node_dir + "node5/distance", "20 10");
  const Topology topology = read_topology(tree.root());
  ASSERT_EQ(topology.nodes.size(), 2U);
  EXPECT_EQ(topology.nodes[1].id, 5);
  EXPECT_TRUE(topology.nodes[1].cpus.empty());
  EXPECT_EQ(topology.cpus[0].package, 0);
  // No caches listed: one group per package.
  ASSERT_EQ(topology.llcs.size(), 1U);
  EXPECT_EQ(topology.llcs[0].level, 0);
  EXPECT_EQ(topology.llcs[0].cpus, (std::vector<int>{0, 1}));
}

TEST(Topology, AKernelWithoutNumaIsOneNode) {
  const Tree tree;
  tree.write(cpu_dir + "online", "0-3");
  const Topology topology = read_topology(tree.root());
  ASSERT_EQ(topology.nodes.size(), 1U);
  EXPECT_EQ(topology.nodes[0].cpus, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(topology.nodes[0].distances, std::vector<int>{10});
}

TEST(Topology, RefusesATreeThatNoKernelWrites) {
  const Tree empty;
  EXPECT_THROW(read_topology(empty.root()), TopologyError);
  const Tree torn;
  torn.write(cpu_dir + "online", "0");
  torn.write(node_dir + "node0/cpulist", "0");
  torn.write(node_dir + "node0/distance", "10 20 30");
  EXPECT_THROW(read_topology(torn.root()), TopologyError);
}

TEST(Topology, ThisHostHasTheCpusWeMayUse) {
  const Topology topology = read_topology();
  const auto allowed = allowed_cpus();
  ASSERT_FALSE(allowed.empty());
  for (const int cpu : allowed) EXPECT_NE(topology.find(cpu), nullptr) << cpu;
}

TEST(Affinity, BindsAndNamesTheCpuThatItCannotBind) {
  // In a thread of its own: the binding would outlive this test.
  std::thread([] {
    const auto allowed = allowed_cpus();
    pin_thread(allowed.back());
    EXPECT_EQ(current_cpu(), allowed.back());
  }).join();
  for (const int bad : {-1, 65000}) {
    try {
      pin_thread(bad);
      FAIL() << "CPU " << bad << " was accepted";
    } catch (const AffinityError& error) {
      EXPECT_EQ(error.cpu(), bad);
      EXPECT_NE(error.code().value(), 0);
    }
  }
}

TEST(Facts, ReadsAMadeUpHostAndLeavesTheRestUnknown) {
  const Tree tree;
  tree.write("proc/cpuinfo",
             "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Test CPU\n"
             "flags\t\t: fpu hypervisor sse\n\nprocessor\t: 1\nmodel name\t: Other");
  tree.write("proc/sys/kernel/numa_balancing", "1");
  tree.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  tree.write("proc/sys/kernel/osrelease", "6.1.0-test");
  const HostFacts facts = read_facts(tree.root());
  EXPECT_EQ(facts.cpu_model, "Test CPU");
  EXPECT_EQ(facts.cpu_vendor, "GenuineIntel");
  EXPECT_EQ(facts.hypervisor, "yes");
  EXPECT_EQ(facts.numa_balancing, "1");
  EXPECT_EQ(facts.transparent_hugepages, "madvise");
  EXPECT_EQ(facts.kernel, "6.1.0-test");
  EXPECT_EQ(facts.perf_event_paranoid, "unknown");
  EXPECT_EQ(facts.governor, "unknown");
  EXPECT_EQ(facts.cpu_limit, "none");
}

TEST(Facts, TheLowestLimitOfCpuTimeOfAllGroupsCounts) {
  const Tree second;
  second.write("proc/self/cgroup", "0::/outer/inner");
  second.write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000");
  EXPECT_EQ(read_facts(second.root()).cpu_limit, "none");
  second.write("sys/fs/cgroup/outer/cpu.max", "250000 100000");
  EXPECT_EQ(read_facts(second.root()).cpu_limit, "2.5");
  const Tree first;
  first.write("proc/self/cgroup", "4:cpu,cpuacct:/group");
  first.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1");
  first.write("sys/fs/cgroup/cpu,cpuacct/group/cpu.cfs_quota_us", "50000");
  first.write("sys/fs/cgroup/cpu,cpuacct/group/cpu.cfs_period_us", "100000");
  EXPECT_EQ(read_facts(first.root()).cpu_limit, "0.5");
}

}  // namespace
}  // namespace pmoss::numa
