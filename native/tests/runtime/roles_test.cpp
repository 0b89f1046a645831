#include "runtime/roles.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace pmoss::runtime {
namespace {

/// Two nodes of four cores with two threads each: CPU i and CPU i + 8 are one core.
numa::Topology with_siblings() {
  numa::Topology topology;
  for (int cpu = 0; cpu < 16; ++cpu) {
    topology.cpus.push_back({cpu, cpu % 8 / 4, 0, cpu % 8, 0, {cpu % 8, cpu % 8 + 8}});
  }
  return topology;
}

std::map<int, int> nodes() {
  std::map<int, int> node_of;
  for (const numa::Cpu& cpu : with_siblings().cpus) node_of[cpu.id] = cpu.node;
  return node_of;
}

TEST(Roles, ASiblingOfARouterSharesItsCoreAndASiblingOfAWorkerDoesNot) {
  using Kind = Role::Kind;
  const std::vector<Role> roles{{Kind::router, "router 0", 0}, {Kind::worker, "worker 0", 8},
                                {Kind::worker, "worker 1", 1}, {Kind::worker, "worker 2", 9},
                                {Kind::sweeper, "a", 2},       {Kind::sweeper, "b", 2},
                                {Kind::stitcher, "s", -1}};
  const auto shared = find_shared_cores(roles, with_siblings());
  ASSERT_EQ(shared.size(), 2U);
  EXPECT_EQ(shared[0].cpus, (std::vector<int>{0, 8}));
  EXPECT_EQ(shared[0].roles, (std::vector<std::string>{"router 0", "worker 0"}));
  EXPECT_EQ(shared[1].cpus, std::vector<int>{2});
  EXPECT_EQ(shared[1].roles, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(find_unbound(roles), std::vector<std::string>{"s"});
}

TEST(Roles, ARouterTakesACoreOfItsOwnIfThereIsOne) {
  const numa::Topology topology = with_siblings();
  EXPECT_EQ(choose_free_cpu({0, 1, 2, 8, 9, 10}, {0, 1}, topology), 2);
  EXPECT_EQ(choose_free_cpu({0, 1, 8, 9}, {0, 1}, topology), 8);
  EXPECT_EQ(choose_free_cpu({0, 1}, {0, 1}, topology), -1);
}

TEST(Roles, TheOffcoreSweeperAndTheStitcherHaveCoresOfTheirOwnWhereThereAreEnough) {
  const std::vector<int> both{0, 1};
  SweeperCpus few = choose_sweepers({1, 5}, both, nodes());
  EXPECT_EQ(few.of_node, (std::vector<int>{1, 5}));
  EXPECT_EQ(few.offcore, 1);
  EXPECT_EQ(few.stitcher, 5);
  SweeperCpus enough = choose_sweepers({1, 2, 5, 6}, both, nodes());
  EXPECT_EQ(enough.of_node, (std::vector<int>{1, 5}));
  EXPECT_EQ(enough.offcore, 2);
  EXPECT_EQ(enough.stitcher, 6);
  SweeperCpus none = choose_sweepers({}, both, nodes());
  EXPECT_EQ(none.of_node, (std::vector<int>{-1, -1}));
  EXPECT_EQ(none.offcore, -1);
  EXPECT_EQ(none.stitcher, -1);
}

}  // namespace
}  // namespace pmoss::runtime
