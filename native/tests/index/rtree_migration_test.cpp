// Moving slices of the R-tree: no point is lost or found twice, whatever happens meanwhile.
#include "index/rtree_migration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "index/rtree_node.hpp"
#include "numa/memory.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

constexpr std::uint32_t top = ~std::uint32_t{0};
constexpr Grid grid = {2, 2};
constexpr std::size_t loaded = 4'000;

numa::Placement first_node() { return numa::Placement::on(numa::memory_nodes().front()); }

Point place(std::uint64_t i) { return point_of_record(KeySpace::Kind::scattered, i); }

std::unique_ptr<RTree> make_tree() {
  std::vector<Point> points;
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < loaded; ++i) {
    points.push_back(place(i));
    values.push_back(i);
  }
  auto tree = std::make_unique<RTree>(RTree::Options{grid, 8, false, {}});
  tree->bulk_load(points, values, 0.7);
  return tree;
}

void expect_all(const RTree& tree, std::uint64_t points) {
  EXPECT_EQ(tree.size(), points);
  std::vector<std::uint64_t> values;
  tree.find({0, 0, top, top}, values);
  std::sort(values.begin(), values.end());
  ASSERT_EQ(values.size(), points);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], i);
}

void expect_in_target(const RTree& tree, std::uint32_t slice) {
  std::vector<const index_detail::RTreeNode*> nodes{tree.root(slice)};
  while (!nodes.empty()) {
    const auto& node = *nodes.back();
    nodes.pop_back();
    ASSERT_TRUE(tree.arena(slice).owns(&node));
    if (node.level == 0) continue;
    for (unsigned i = 0; i < node.count.load(); ++i) {
      nodes.push_back(index_detail::RTreeNode::as_node(node.words()[i]));
    }
  }
}

TEST(RTreeMigration, MovesEveryNodeByParts) {
  const auto tree = make_tree();
  for (std::uint32_t slice = 0; slice < grid.slices(); ++slice) {
    const std::size_t nodes = tree->arena(slice).nodes();
    RTreeMigration migration(*tree, slice, first_node());
    std::size_t steps = 0;
    while (migration.step(7)) ++steps;
    EXPECT_GE(steps, nodes / 7);
    EXPECT_TRUE(migration.done());
    EXPECT_EQ(migration.nodes_moved(), nodes);
    EXPECT_LT(migration.leaves_moved(), nodes);
    EXPECT_EQ(migration.bytes_moved(), tree->arena(slice).bytes_used());
    EXPECT_EQ(tree->retired().reclaim(), 0U);
    expect_in_target(*tree, slice);
    EXPECT_FALSE(migration.step(1));
  }
  expect_all(*tree, loaded);
}

TEST(RTreeMigration, AnEmptySliceGetsItsRootInTheNewMemory) {
  RTree tree({grid, 8, false, {}});
  RTreeMigration migration(tree, 0, first_node());
  EXPECT_FALSE(migration.step(1));
  EXPECT_TRUE(migration.done());
  EXPECT_EQ(migration.nodes_moved(), 0U);
  EXPECT_EQ(tree.retired().reclaim(), 0U);
  tree.insert({1, 1}, 5);
  expect_in_target(tree, 0);
  EXPECT_EQ(tree.count({0, 0, top, top}), 1U);
}

TEST(RTreeMigration, InsertsBetweenStepsAreFoundAndAnAbandonedMoveIsTakenUp) {
  const auto tree = make_tree();
  std::uint64_t next = loaded;
  {
    RTreeMigration first(*tree, 1, first_node());
    EXPECT_THROW(RTreeMigration(*tree, 1, first_node()), std::logic_error);
    const EpochGuard guard;
    first.step(20);
    EXPECT_EQ(tree->retired().reclaim(), 0U) << "nothing may die before it has been left";
  }
  RTreeMigration second(*tree, 1, numa::Placement{});
  // Nodes are split between the steps, the root too.
  do {
    for (int i = 0; i < 40; ++i, ++next) tree->insert(place(next), next);
  } while (second.step(30));
  EXPECT_EQ(tree->retired().reclaim(), 0U);
  expect_in_target(*tree, 1);
  expect_all(*tree, next);
  EXPECT_THROW(RTreeMigration(*tree, grid.slices(), first_node()), std::out_of_range);
}

TEST(RTreeMigrationConcurrent, NoPointIsLostOrSeenTwiceUnderLoad) {
  const auto tree = make_tree();
  constexpr std::uint64_t added = 4'000;
  std::atomic<int> writing{2};
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::uint64_t i = loaded + writer; i < loaded + added; i += 2) {
        tree->insert(place(i), i);
      }
      --writing;
    });
  }
  for (std::uint64_t reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&, reader] {
      Random random(reader);
      std::vector<std::uint64_t> values;
      do {
        const Point a = place(random.below(loaded));
        const Point b = place(random.below(loaded));
        const Rectangle range = {std::min(a.x, b.x), std::min(a.y, b.y), std::max(a.x, b.x),
                                 std::max(a.y, b.y)};
        values.clear();
        tree->find(range, values);
        std::sort(values.begin(), values.end());
        ASSERT_EQ(std::adjacent_find(values.begin(), values.end()), values.end());
        std::size_t expected = 0;
        for (std::uint64_t i = 0; i < loaded; ++i) expected += range.contains(place(i)) ? 1 : 0;
        const auto end = std::lower_bound(values.begin(), values.end(), loaded);
        ASSERT_EQ(static_cast<std::size_t>(end - values.begin()), expected);
      } while (writing.load() > 0);
    });
  }
  Random random(9);
  std::uint64_t moved = 0;
  do {
    RTreeMigration migration(*tree, static_cast<std::uint32_t>(random.below(grid.slices())),
                             random.below(2) == 0 ? first_node() : numa::Placement{});
    while (migration.step(16)) {
    }
    moved += migration.nodes_moved();
    tree->retired().reclaim();
  } while (writing.load() > 0);
  for (auto& thread : threads) thread.join();
  EXPECT_GT(moved, 0U);
  expect_all(*tree, loaded + added);
}

}  // namespace
}  // namespace pmoss
