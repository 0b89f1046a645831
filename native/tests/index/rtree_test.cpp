// The R-tree against a plain list of points, and the structure of its nodes.
#include "index/rtree.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <new>
#include <span>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "index/rtree_node.hpp"
#include "index/rtree_split.hpp"
#include "index/search.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

using index_detail::RTreeNode;

constexpr std::uint32_t top = ~std::uint32_t{0};
constexpr Rectangle everything = {0, 0, top, top};

RTree::Options options(std::uint32_t fanout = 50, Grid grid = {4, 4}) {
  return {.grid = grid, .fanout = fanout, .huge_pages = false};
}

struct Data {
  std::vector<Point> points;
  std::vector<std::uint64_t> values;
};

Data make(std::size_t n, KeySpace::Kind kind = KeySpace::Kind::clustered) {
  Data data;
  for (std::size_t i = 0; i < n; ++i) {
    data.points.push_back(point_of_record(kind, i));
    data.values.push_back(i * 3 + 1);
  }
  return data;
}

std::vector<std::uint64_t> expected(const Data& data, const Rectangle& range) {
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i < data.points.size(); ++i) {
    if (range.contains(data.points[i])) values.push_back(data.values[i]);
  }
  return values;
}

std::vector<std::uint64_t> values_in(const RTree& tree, const Rectangle& range) {
  std::vector<std::uint64_t> values;
  const RTree::Work work = tree.find(range, values);
  EXPECT_EQ(work.points, values.size());
  EXPECT_EQ(tree.count(range), values.size());
  // Going down one path after the other finds the same in the same order.
  TouchLog log;
  std::vector<std::uint64_t> logged;
  EXPECT_EQ(tree.find(range, logged, log).nodes, work.nodes);
  EXPECT_EQ(logged, values);
  std::sort(values.begin(), values.end());
  return values;
}

Rectangle random_range(const Data& data, Random& random) {
  const Point centre = data.points[random.below(data.points.size())];
  const auto half = static_cast<std::int64_t>(std::uint64_t{1} << random.below(32));
  const auto moved = [](std::uint32_t from, std::int64_t by) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(from + by, 0, top));
  };
  return {moved(centre.x, -half), moved(centre.y, -half / 3), moved(centre.x, half / 2),
          moved(centre.y, half)};
}

void expect_same_as_list(const RTree& tree, const Data& data, int queries) {
  Random random(11);
  for (int i = 0; i < queries; ++i) {
    const Rectangle range = random_range(data, random);
    ASSERT_EQ(values_in(tree, range), expected(data, range));
  }
  EXPECT_EQ(values_in(tree, everything), expected(data, everything));
  EXPECT_EQ(tree.size(), data.points.size());
}

struct Structure {
  std::uint64_t nodes = 0;
  std::uint64_t points = 0;
};

/// Checks the nodes below `node`, whose parent knows it by `box`.
void inspect(const RTree& tree, const RTreeNode& node, std::uint32_t slice, unsigned least,
             Structure& structure) {
  ++structure.nodes;
  const unsigned n = node.count.load();
  EXPECT_GE(n, least);
  EXPECT_LE(n, tree.fanout());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&node) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(node.words()) % 64, 0u);
  if (node.level == 0) {
    structure.points += n;
    for (unsigned i = 0; i < n; ++i) {
      EXPECT_EQ(tree.grid().slice_of({node.side(0)[i], node.side(1)[i]}), slice);
    }
    return;
  }
  for (unsigned i = 0; i < n; ++i) {
    const RTreeNode& child = *RTreeNode::as_node(node.words()[i]);
    EXPECT_EQ(child.level + 1, node.level);
    EXPECT_TRUE(node.box(i).contains(cover(child)));
    inspect(tree, child, slice, (tree.fanout() + 1) * 2 / 5, structure);
  }
}

Structure inspect(const RTree& tree) {
  Structure all;
  for (std::uint32_t slice = 0; slice < tree.slices(); ++slice) {
    const RTreeNode* const root = tree.root(slice);
    if (root == nullptr) {
      EXPECT_EQ(tree.slice_size(slice), 0u);
      EXPECT_EQ(tree.height(slice), 0u);
      continue;
    }
    EXPECT_EQ(tree.height(slice), root->level + 1);
    Structure structure;
    inspect(tree, *root, slice, root->level > 0 ? 2 : 0, structure);
    EXPECT_EQ(structure.points, tree.slice_size(slice));
    EXPECT_EQ(structure.nodes, tree.arena(slice).nodes());
    all.nodes += structure.nodes;
    all.points += structure.points;
  }
  return all;
}

class RTreeFanout : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(RTreeFanout, BulkLoadedFindsWhatAListFinds) {
  const Data data = make(20'000);
  RTree tree(options(GetParam()));
  tree.bulk_load(data.points, data.values);
  expect_same_as_list(tree, data, 200);
  EXPECT_EQ(inspect(tree).points, data.points.size());
}

TEST_P(RTreeFanout, InsertedFindsWhatAListFinds) {
  const Data data = make(20'000);
  RTree tree(options(GetParam()));
  for (std::size_t i = 0; i < data.points.size(); ++i) {
    tree.insert(data.points[i], data.values[i]);
  }
  expect_same_as_list(tree, data, 200);
  EXPECT_EQ(inspect(tree).points, data.points.size());
}

INSTANTIATE_TEST_SUITE_P(All, RTreeFanout, ::testing::Values(8, 20, 50, 64));

TEST(RTree, GrowsAfterABulkLoad) {
  Data data = make(30'000);
  RTree tree(options());
  tree.bulk_load({data.points.data(), 10'000}, {data.values.data(), 10'000}, 0.7);
  for (std::size_t i = 10'000; i < data.points.size(); ++i) {
    tree.insert(data.points[i], data.values[i]);
  }
  expect_same_as_list(tree, data, 100);
  inspect(tree);
}

TEST(RTree, FillsNodesAsAsked) {
  const Data data = make(100'000, KeySpace::Kind::scattered);
  std::vector<std::uint64_t> nodes;
  for (const double fill : {1.0, 0.5}) {
    RTree tree(options());
    tree.bulk_load(data.points, data.values, fill);
    nodes.push_back(inspect(tree).nodes);
    // 50 or 25 points in a leaf, and 1/50 or 1/25 as many nodes above them, with a root per slice.
    const double full = 50 * fill;
    const double leaves = 100'000 / full;
    EXPECT_NEAR(static_cast<double>(nodes.back()), leaves * (1 + 1 / full) + 16, 0.03 * leaves);
  }
}

TEST(RTree, BordersBelongToARange) {
  RTree tree(options());
  const Point point = {1'000, 2'000};
  tree.insert(point, 7);
  EXPECT_EQ(tree.count({1'000, 2'000, 1'000, 2'000}), 1u);
  EXPECT_EQ(tree.count({900, 1'900, 1'000, 2'000}), 1u);
  EXPECT_EQ(tree.count({1'000, 2'000, 1'100, 2'100}), 1u);
  EXPECT_EQ(tree.count({1'001, 0, top, top}), 0u);
  EXPECT_EQ(tree.count({0, 0, top, 1'999}), 0u);
  EXPECT_EQ(tree.count({1'001, 0, 999, top}), 0u);  // crossed
}

TEST(RTree, HoldsPointsAtTheCornersAndTheSamePointManyTimes) {
  Data data;
  for (const Point corner : {Point{0, 0}, Point{top, 0}, Point{0, top}, Point{top, top}}) {
    for (std::uint64_t i = 0; i < 300; ++i) {
      data.points.push_back(corner);
      data.values.push_back(i);
    }
  }
  RTree loaded(options());
  loaded.bulk_load(data.points, data.values);
  RTree grown(options());
  for (std::size_t i = 0; i < data.points.size(); ++i) {
    grown.insert(data.points[i], data.values[i]);
  }
  for (const RTree* tree : {&loaded, &grown}) {
    EXPECT_EQ(tree->count({0, 0, 0, 0}), 300u);
    EXPECT_EQ(tree->count({top, top, top, top}), 300u);
    EXPECT_EQ(tree->count(everything), 1'200u);
    inspect(*tree);
  }
}

TEST(RTree, IsEmptyAtFirst) {
  const RTree tree(options());
  EXPECT_EQ(tree.count(everything), 0u);
  std::vector<std::uint64_t> values;
  const RTree::Work work = tree.find(everything, values);
  EXPECT_EQ(work.cells, 16u);
  EXPECT_EQ(work.nodes, 0u);
  EXPECT_EQ(tree.height(0), 0u);
}

TEST(RTree, FindsTheSameWithEveryInstructionSet) {
  const Data data = make(50'000);
  RTree tree(options());
  tree.bulk_load({data.points.data(), 40'000}, {data.values.data(), 40'000}, 0.8);
  for (std::size_t i = 40'000; i < 50'000; ++i) tree.insert(data.points[i], data.values[i]);
  const Isa before = search_isa();
  std::vector<std::vector<std::uint64_t>> results;
  std::vector<std::uint64_t> visited;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (!isa_supported(isa)) continue;
    set_search_isa(isa);
    Random random(5);
    results.emplace_back();
    visited.push_back(0);
    for (int i = 0; i < 500; ++i) {
      visited.back() += tree.find(random_range(data, random), results.back()).nodes;
    }
    // At the borders, where differences of coordinates are the largest and the least.
    constexpr std::uint32_t inner = top - top / 40;
    for (const Rectangle& range :
         {Rectangle{0, 0, top / 40, top}, Rectangle{0, inner, top, top},
          Rectangle{inner, inner, top, top}, Rectangle{top, 0, top, top}}) {
      std::vector<std::uint64_t> values = {42};
      const RTree::Work work = tree.find(range, values);
      EXPECT_EQ(work.points, tree.count(range));
      EXPECT_EQ(values.size(), work.points + 1);
      EXPECT_EQ(values.front(), 42u);
      results.back().insert(results.back().end(), values.begin(), values.end());
    }
  }
  set_search_isa(before);
  for (const auto& result : results) EXPECT_EQ(result, results.front());
  for (const auto nodes : visited) EXPECT_EQ(nodes, visited.front());
}

TEST(RTree, FindsTheSameInBatches) {
  const Data data = make(50'000);
  // Many cells, so that some batches overlap more of them, and of the nodes, than go together.
  RTree tree(options(8, {20, 20}));
  tree.bulk_load(data.points, data.values);
  Random random(6);
  for (const std::size_t n : {0, 1, 7, 8, 100}) {
    std::vector<Rectangle> ranges;
    for (std::size_t i = 0; i < n; ++i) ranges.push_back(random_range(data, random));
    if (n > 7) ranges[2] = {1'001, 0, 999, top};  // crossed
    if (n > 8) ranges[30] = everything;
    const Isa before = search_isa();
    for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
      if (!isa_supported(isa)) continue;
      set_search_isa(isa);
      std::vector<std::uint64_t> values = {42};
      std::vector<std::size_t> ends(n);
      tree.find_batch(ranges, values, ends.data());
      set_search_isa(Isa::scalar);
      std::vector<std::uint64_t> expected_values = {42};
      for (std::size_t i = 0; i < n; ++i) {
        tree.find(ranges[i], expected_values);
        ASSERT_EQ(ends[i], expected_values.size());
      }
      EXPECT_EQ(values, expected_values);
    }
    set_search_isa(before);
  }
}

TEST(RTree, SplitsAsSortingTheMiddlesWould) {
  using index_detail::RTreeEntry;
  Random random(7);
  for (int round = 0; round < 2'000; ++round) {
    // Few different places make equal middles, and those that only look equal when halved.
    const std::uint64_t places = std::uint64_t{1} << (1 + random.below(31));
    const std::uint64_t sides = round % 2 == 0 ? 1 : places;
    std::vector<RTreeEntry> entries(9 + random.below(57));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const auto x = static_cast<std::uint32_t>(random.below(places));
      const auto y = static_cast<std::uint32_t>(random.below(places));
      entries[i] = {{x, y, x + static_cast<std::uint32_t>(random.below(sides)),
                     y + static_cast<std::uint32_t>(random.below(sides))},
                    i};
    }
    const auto sorted = [](std::vector<RTreeEntry> some, bool by_y) {
      std::sort(some.begin(), some.end(), [by_y](const RTreeEntry& a, const RTreeEntry& b) {
        const auto middle = [by_y](const Rectangle& box) {
          return by_y ? std::uint64_t{box.y_low} + box.y_high
                      : std::uint64_t{box.x_low} + box.x_high;
        };
        return middle(a.box) < middle(b.box);
      });
      return some;
    };
    const auto words = [](const std::vector<RTreeEntry>& some) {
      std::vector<std::uint64_t> all;
      for (const RTreeEntry& entry : some) all.push_back(entry.word);
      return all;
    };
    const auto by_x = sorted(sorted(entries, true), false);
    const auto by_y = sorted(by_x, true);
    const std::size_t n = entries.size();
    const auto unsplit = entries;
    const index_detail::Shares shares = index_detail::split_entries(entries);
    EXPECT_GE(shares.first, n * 2 / 5);
    EXPECT_LE(shares.first, n - n * 2 / 5);
    ASSERT_TRUE(words(entries) == words(by_x) || words(entries) == words(by_y)) << round;
    const auto box_of = [](std::span<const RTreeEntry> some) {
      Rectangle box = some.front().box;
      for (const RTreeEntry& entry : some) box = index_detail::joined(box, entry.box);
      return box;
    };
    const std::span<const RTreeEntry> all = entries;
    ASSERT_EQ(shares.left, box_of(all.first(shares.first)));
    ASSERT_EQ(shares.right, box_of(all.subspan(shares.first)));
    const Isa before = search_isa();
    for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
      if (!isa_supported(isa)) continue;
      set_search_isa(isa);
      auto again = unsplit;
      EXPECT_EQ(index_detail::split_entries(again).first, shares.first);
      ASSERT_EQ(words(again), words(entries));
    }
    set_search_isa(before);
  }
}

TEST(RTree, LogsTheLinesOfTheNodesThatItVisits) {
  const Data data = make(50'000);
  RTree tree(options());
  tree.bulk_load(data.points, data.values);
  Random random(8);
  TouchLog log;
  for (int i = 0; i < 200; ++i) {
    const Point centre = data.points[random.below(data.points.size())];
    const Rectangle range = {centre.x - std::min(centre.x, 1U << 20),
                             centre.y - std::min(centre.y, 1U << 20), centre.x, centre.y};
    std::vector<std::uint64_t> values;
    log.clear();
    const RTree::Work work = tree.find(range, values, log);
    ASSERT_FALSE(log.overflowed());
    std::vector<std::uint64_t> heads;
    for (std::uint32_t slice = 0; slice < tree.slices(); ++slice) {
      if (tree.root(slice) == nullptr) continue;
      std::vector<const RTreeNode*> nodes = {tree.root(slice)};
      while (!nodes.empty()) {
        const RTreeNode* const node = nodes.back();
        nodes.pop_back();
        heads.push_back(reinterpret_cast<std::uintptr_t>(node) / 64);
        if (node->level == 0) continue;
        for (unsigned c = 0; c < node->count; ++c) {
          nodes.push_back(RTreeNode::as_node(node->words()[c]));
        }
      }
    }
    std::sort(heads.begin(), heads.end());
    std::uint64_t logged = 0;
    for (const auto entry : log.entries()) {
      EXPECT_FALSE(entry.writes());
      logged += std::binary_search(heads.begin(), heads.end(), entry.line()) ? 1 : 0;
    }
    EXPECT_EQ(logged, work.nodes);
  }
}

TEST(RTree, RefusesImpossibleOptionsAndLoads) {
  EXPECT_THROW(RTree(options(7)), std::invalid_argument);
  EXPECT_THROW(RTree(options(65)), std::invalid_argument);
  EXPECT_THROW(RTree(options(50, {0, 4})), std::invalid_argument);
  EXPECT_THROW(RTree(options(50, {300, 300})), std::invalid_argument);
  const Data data = make(10);
  RTree tree(options());
  EXPECT_THROW(tree.bulk_load(data.points, {data.values.data(), 9}), std::invalid_argument);
  EXPECT_THROW(tree.bulk_load(data.points, data.values, 0.1), std::invalid_argument);
  EXPECT_THROW(tree.height(16), std::out_of_range);
  tree.insert(data.points[0], 1);
  EXPECT_THROW(tree.bulk_load(data.points, data.values), std::logic_error);
}

#if !defined(PMOSS_SANITIZED)
/// Runs in a process of its own: memory runs out again and again, in the middle of splits, too.
[[noreturn]] void insert_with_too_little_memory() {
  RTree tree(options(8, {1, 1}));
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limits{};
  if (::getrlimit(RLIMIT_AS, &limits) != 0) std::exit(2);
  std::uint64_t inserted = 0;
  std::uint64_t refused = 0;
  for (rlim_t mebibytes = 8; mebibytes < 28; ++mebibytes) {
    limits.rlim_cur = pages * 4096 + (mebibytes << 20);
    if (::setrlimit(RLIMIT_AS, &limits) != 0) std::exit(2);
    for (std::uint64_t more = 0; more < 2'000;) {
      try {
        tree.insert(point_of_record(KeySpace::Kind::clustered, inserted + refused), inserted);
        ++inserted;
      } catch (const std::bad_alloc&) {
        ++refused;
        ++more;
      }
    }
  }
  if (inserted < 100'000) std::exit(3);
  // Every node that the arena counts is in the tree, and every point that was not refused.
  if (inspect(tree).points != inserted || ::testing::Test::HasFailure()) std::exit(4);
  std::exit(0);
}

TEST(RTreeDeathTest, RunningOutOfMemoryLosesNoNode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(insert_with_too_little_memory(), ::testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace pmoss
