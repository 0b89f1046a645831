// Which loader is bound where.
#include "runtime/loading.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/errors.hpp"

namespace pmoss::runtime {
namespace {

/// CPUs 0 and 1 on node 0, 2 and 3 on node 1; node 2 has none.
numa::Topology two_nodes_with_cpus() {
  numa::Topology topology;
  for (int id = 0; id < 4; ++id) {
    numa::Cpu cpu;
    cpu.id = id;
    cpu.node = id / 2;
    topology.cpus.push_back(cpu);
  }
  return topology;
}

TEST(Loading, EachSliceHasOneLoaderOnItsNode) {
  const std::vector<int> nodes = {0, 1, 1, 1, 0, 1};
  for (const unsigned max_loaders : {1U, 2U, 4U, 64U}) {
    const auto loaders =
        plan_bound_loaders(nodes, two_nodes_with_cpus(), {0, 1, 2, 3}, max_loaders);
    EXPECT_EQ(loaders.size(), std::clamp(max_loaders, 2U, 4U));
    std::vector<int> times(nodes.size());
    std::set<int> cpus;
    for (const Loader& loader : loaders) {
      EXPECT_EQ(loader.cpu / 2, loader.node);
      EXPECT_TRUE(cpus.insert(loader.cpu).second);
      for (std::size_t slice = 0; slice < nodes.size(); ++slice) {
        if (!loader.slices[slice]) continue;
        EXPECT_EQ(loader.node, nodes[slice]);
        ++times[slice];
      }
    }
    EXPECT_EQ(times, std::vector<int>(nodes.size(), 1));
  }
}

TEST(Loading, ANodeWithoutAllowedCpusIsRefused) {
  EXPECT_THROW(plan_bound_loaders({0, 2}, two_nodes_with_cpus(), {0, 1, 2, 3}, 4),
               PlacementRefused);
  EXPECT_THROW(plan_bound_loaders({0, 1}, two_nodes_with_cpus(), {0, 1}, 4), PlacementRefused);
}

}  // namespace
}  // namespace pmoss::runtime
