#include "environment/rules.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace pmoss::environment {
namespace {

// Two rows of three tiles; the first has no core, the second core serves nothing. Cores 0 to 2 are
// on node 0, cores 3 and 4 on node 1; both nodes are of one socket.
Task small_task() {
  Task task;
  task.slices = 3;
  task.counters = 1;
  task.columns = 3;
  task.core_of_tile = {-1, 0, 1, 2, 3, 4};
  task.node_of_core = {0, 0, 0, 1, 1};
  task.socket_of_node = {0, 0};
  task.worker_tiles = {0, 1, 0, 1, 1, 1};
  return task;
}

TEST(Rules, AnIllegalActionGoesToTheNearestTileOfItsNode) {
  const Rules rules(small_task());
  std::vector<std::int8_t> legal{0, 1, 0, 1, 1, 1};
  EXPECT_EQ(rules.nearest_legal(2, legal.data()), 1U);
  legal[1] = 0;
  EXPECT_EQ(rules.nearest_legal(2, legal.data()), 3U) << "tile 5 is nearer, on another node";
  EXPECT_EQ(rules.nearest_legal(1, legal.data()), 3U);
  legal[3] = 0;
  EXPECT_EQ(rules.nearest_legal(2, legal.data()), 5U);
  EXPECT_EQ(rules.nearest_legal(0, legal.data()), 4U) << "without a core only distance counts";
}

TEST(Rules, OfTilesAsNearTheLowestNumberIsTaken) {
  const Rules rules(small_task());
  const std::vector<std::int8_t> legal{0, 1, 0, 1, 0, 0};
  EXPECT_EQ(rules.nearest_legal(0, legal.data()), 1U);
}

TEST(Rules, ExpandingShowsWhatPlacingShows) {
  Task task = small_task();
  task.max_slices_per_core = 1;
  const Rules rules(task);
  const std::array<float, 3> counters{1.0F, 2.0F, 4.0F};
  const std::array<std::int32_t, 3> order{2, 0, 1}, incumbent{0, 0, 0}, nodes{0, 0, 0},
      tiles{4, 1, 3};
  std::vector<std::int8_t> views(24), masks(24), alone(24);
  std::vector<float> machine(24), slice(4), slice_view(4);
  Observations rows;
  rows.view_mask = views.data();
  rows.position_mask = masks.data();
  rows.machine_view = machine.data();
  rows.slice = slice.data();
  rows.slice_view = slice_view.data();
  rules.expand(counters, order, incumbent, nodes, tiles, 4, rows);
  EXPECT_EQ(std::vector<float>(machine.end() - 6, machine.end()),
            (std::vector<float>{0, 1, 0, 2, 4, 0}));
  EXPECT_EQ(std::vector<std::int8_t>(views.end() - 6, views.end()),
            (std::vector<std::int8_t>{0, 1, 0, 1, 1, 0}));
  EXPECT_EQ(std::vector<std::int8_t>(masks.end() - 6, masks.end()),
            (std::vector<std::int8_t>{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(slice_view, (std::vector<float>{4, 1, 2, 0}));
  EXPECT_EQ(slice.back(), 1.0F);
  rules.expand_masks(tiles, 4, alone.data());
  EXPECT_EQ(alone, masks);
  EXPECT_THROW(rules.expand(counters, order, incumbent, nodes, tiles, 5, rows),
               std::invalid_argument);
}

TEST(Rules, TheCompleteObservationSaysWhereEverySliceIs) {
  Task task = small_task();
  task.detail = Detail::complete;
  const Rules rules(task);
  const std::array<float, 3> counters{1.0F, 2.0F, 4.0F};
  const std::array<std::int32_t, 3> order{2, 0, 1}, incumbent{3, 0, 4}, nodes{0, 0, 0},
      tiles{1, 3, 3};
  std::vector<std::int8_t> views(24), masks(24);
  std::vector<float> machine(24), slice(4), slice_view(4);
  std::vector<std::int32_t> now(12);
  Observations rows;
  rows.view_mask = views.data();
  rows.position_mask = masks.data();
  rows.machine_view = machine.data();
  rows.slice = slice.data();
  rows.slice_view = slice_view.data();
  rows.slice_tiles = now.data();
  rules.expand(counters, order, incumbent, nodes, tiles, 4, rows);
  EXPECT_EQ(now, (std::vector<std::int32_t>{4, 1, 5, 4, 1, 1, 3, 1, 1, 3, 3, 1}));
  const std::array<std::int32_t, 3> missing{3, 0, 5};
  EXPECT_THROW(rules.expand(counters, order, missing, nodes, tiles, 4, rows),
               std::invalid_argument);
}

TEST(Rules, AnActionMayNameTheNodeOfTheData) {
  Task task = small_task();
  task.chooses_node = true;
  task.detail = Detail::complete;
  task.max_slices_of_node = {1, 3};
  const Rules rules(task);
  EXPECT_EQ(task.actions(), 12U);
  const std::array<float, 3> counters{1.0F, 2.0F, 4.0F};
  // The core of tile 1 is on node 0: slice 2 has its data there, slice 0 on node 1.
  const std::array<std::int32_t, 3> order{2, 0, 1}, incumbent{3, 0, 4}, nodes{1, 0, 0},
      actions{2, 3, 9};
  std::vector<std::int8_t> views(24), masks(24), of_nodes(8), alone(48);
  std::vector<float> machine(24), slice(4), slice_view(4), room(8), node_view(8);
  std::vector<std::int32_t> tiles(12), data(12);
  Observations rows;
  rows.view_mask = views.data();
  rows.position_mask = masks.data();
  rows.machine_view = machine.data();
  rows.slice = slice.data();
  rows.slice_view = slice_view.data();
  rows.slice_tiles = tiles.data();
  rows.node_mask = of_nodes.data();
  rows.node_room = room.data();
  rows.node_view = node_view.data();
  rows.slice_nodes = data.data();
  rules.expand(counters, order, incumbent, nodes, actions, 4, rows);
  EXPECT_EQ(of_nodes, (std::vector<std::int8_t>{1, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(node_view, (std::vector<float>{0, 0, 4, 0, 4, 1, 4, 3}));
  EXPECT_EQ(room[2], 0.0F);
  EXPECT_EQ(data, (std::vector<std::int32_t>{1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 0}));
  rules.expand_masks(actions, 4, alone.data());
  EXPECT_EQ(std::vector<std::int8_t>(alone.begin(), alone.begin() + 12),
            (std::vector<std::int8_t>{0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(std::vector<std::int8_t>(alone.begin() + 12, alone.begin() + 24),
            (std::vector<std::int8_t>{0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(rules.nearest_node(0, of_nodes.data() + 2), 1U);
}

TEST(Rules, TheCoresOfAFullNodeTakeNoMore) {
  Task task = small_task();
  task.max_slices_of_node = {1, 3};
  const Rules rules(task);
  const std::array<std::int32_t, 3> tiles{1, 4, 5};
  std::vector<std::int8_t> masks(18);
  rules.expand_masks(tiles, 3, masks.data());
  EXPECT_EQ(masks,
            (std::vector<std::int8_t>{0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1}));
  task.max_slices_of_node = {1, 1};
  EXPECT_THROW(Rules{task}, std::invalid_argument);
  task.max_slices_of_node = {3};
  EXPECT_THROW(Rules{task}, std::invalid_argument);
}

TEST(Rules, RewardsAndReturns) {
  const std::array<double, 3> throughput{4.0, 3.0, 6.0}, shares{1.0, 2.0, 3.0};
  const std::array<std::int32_t, 3> order{2, 0, 1};
  const Outcome outcome{2.0, 6.0, throughput, shares, order};
  const auto paid = [&](Reward mode, auto calculate) {
    std::vector<double> result(3);
    calculate(mode, outcome, std::span<double>(result));
    return result;
  };
  using List = std::vector<double>;
  EXPECT_EQ(paid(Reward::improvement, rewards), (List{2, -1, 3}));
  EXPECT_EQ(paid(Reward::improvement, returns_to_go), (List{4, 2, 3}));
  EXPECT_EQ(paid(Reward::slice, rewards), (List{3, 1, 2}));
  EXPECT_EQ(paid(Reward::slice, returns_to_go), (List{6, 3, 2}));
  EXPECT_EQ(paid(Reward::terminal, rewards), (List{0, 0, 6}));
  EXPECT_EQ(paid(Reward::terminal, returns_to_go), (List{6, 6, 6}));
}

}  // namespace
}  // namespace pmoss::environment
