// A schedule has the same bits whichever schedules were before it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analytic/model.hpp"
#include "tests/analytic/small_model.hpp"
#include "tests/machine/small_machine.hpp"
#include "workload/random.hpp"

namespace pmoss::analytic {
namespace {

class Moves : public EveryLoad {};

/// Moves slices of a random schedule in one model, and places the whole in the other.
void expect_that_moves_place(Model& moved, Model& placed, bool local, int moves) {
  const Machine& machine = moved.machine();
  Placed p = random_schedule(machine, 64, 3, local);
  moved.place({p.cores, p.nodes});
  Random random(9);
  for (int i = 0; i < moves; ++i) {
    const auto s = random.below(64);
    p.cores[s] = static_cast<std::int32_t>(random.below(8));
    p.nodes[s] = local ? machine.node_of_core[static_cast<std::size_t>(p.cores[s])]
                       : static_cast<std::int32_t>(random.below(4));
    const double by_move = moved.move(static_cast<int>(s), p.cores[s], p.nodes[s]);
    ASSERT_EQ(by_move, placed.place({p.cores, p.nodes})) << "move " << i;
  }
}

TEST_P(Moves, AMoveGivesTheSameBitsAsPlacingTheWhole) {
  const Machine machine = small_machine();
  for (const bool home_cluster : {false, true}) {
    Machine m = machine;
    m.llc_at_home_cluster = home_cluster;
    for (const bool local : {true, false}) {
      auto moved = model_of(m, load());
      auto placed = model_of(m, load());
      expect_that_moves_place(moved, placed, local, 200);
    }
  }
}

TEST_P(Moves, WithCoTenantsAMoveGivesTheSameBitsAsPlacingTheWhole) {
  const Machine m = small_machine();
  Interference interference = quiet();
  interference.busy_share[3] = 0.4;
  interference.llc_lines_per_ns[2] = 0.05;
  auto moved = model_of(m, load(), 64, interference);
  auto placed = model_of(m, load(), 64, interference);
  expect_that_moves_place(moved, placed, true, 60);
}

TEST_P(Moves, WithSharedLinesAMoveGivesTheSameBitsAsPlacingTheWhole) {
  const Machine m = small_machine();
  ReadyModel moved(m, load(), overlapping(64), {});
  ReadyModel placed(m, load(), overlapping(64), {});
  expect_that_moves_place(moved, placed, true, 60);
}

TEST_P(Moves, SharedLinesForgetTheSchedulesBefore) {
  Machine m = small_machine();
  m.complete();
  // The wait for a line that was modified elsewhere differs from pair to pair of domains.
  for (std::size_t pair = 0; pair < m.modified_ns.size(); ++pair) {
    m.modified_ns[pair] = 60.0 + 7.0 * static_cast<double>(pair);
  }
  SliceProfiles profiles = overlapping(16);
  std::fill(profiles.share.begin(), profiles.share.end(), 1.0 / 16);
  ReadyModel moved(m, load(), profiles, {});
  std::vector<std::int32_t> cores(16), nodes(16);
  for (std::size_t s = 0; s < 16; ++s) {
    cores[s] = static_cast<std::int32_t>(s % 8);
    nodes[s] = cores[s] / 2;
  }
  moved.place({cores, nodes});
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const auto s = random.below(16);
    // Half of the moves join a neighbour, so that streams stop sharing their lines.
    const auto any = static_cast<std::int32_t>(random.below(8));
    cores[s] = random.below(2) == 0 ? cores[(s + 1) % 16] : any;
    nodes[s] = cores[s] / 2;
    const double by_moves = moved.move(static_cast<int>(s), cores[s], nodes[s]);
    ReadyModel fresh(m, load(), profiles, {});
    ASSERT_EQ(by_moves, fresh.place({cores, nodes})) << "move " << i;
    const Snapshot now = moved.snapshot(), anew = fresh.snapshot();
    for (std::size_t at = 0; at < 16; ++at) {
      ASSERT_EQ(now.slices[at].cycles, anew.slices[at].cycles) << "move " << i << ", slice " << at;
    }
  }
}

TEST_P(Moves, OnAMeshAMoveGivesTheSameBitsAsPlacingTheWhole) {
  const Machine m = small_mesh_machine();
  for (const bool shared : {false, true}) {
    const SliceProfiles profiles =
        shared ? overlapping(64) : BTreeProfiler(workload(), 64).profiles(1);
    ReadyModel moved(m, load(), profiles, {});
    ReadyModel placed(m, load(), profiles, {});
    expect_that_moves_place(moved, placed, true, 60);
  }
}

INSTANTIATE_TEST_SUITE_P(Loads, Moves,
                         ::testing::Values(Load::Kind::closed, Load::Kind::saturated,
                                           Load::Kind::open));

}  // namespace
}  // namespace pmoss::analytic
