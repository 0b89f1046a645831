#include "simulator/page_homes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/machine/small_machine.hpp"

namespace pmoss::simulator {
namespace {

TEST(PageHomes, InterleavesThePagesThatTheMachineHas) {
  const std::vector<std::uint32_t> workers{0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::int32_t> cores{5}, nodes{1};
  Machine machine = small_machine();
  const Placement placement{cores, nodes, Routing::core, DataPlacement::interleaved};
  for (const std::uint32_t pages : {1U, 512U}) {
    machine.page_bytes = 4096.0 * pages;
    const PageHomes homes(machine, workers, placement, false, 0.0);
    for (std::uint32_t page = 0; page < 8; ++page) {
      EXPECT_EQ(homes.of(page * pages, 0), page % 4);
      EXPECT_EQ(homes.of(page * pages + pages - 1, 0), page % 4);
    }
  }
}

TEST(PageHomes, BalancingMovesPagesToThoseWhoUseThem) {
  const std::vector<std::uint32_t> workers{2, 3, 6, 7};
  const std::vector<std::int32_t> cores{6}, nodes{1};
  const Machine machine = small_machine();
  const auto shares = [&](Routing routing, bool balancing) {
    const Placement placement{cores, nodes, routing, DataPlacement::loader};
    const PageHomes homes(machine, workers, placement, balancing, 0.25);
    std::vector<double> share(4, 0.0);
    for (std::uint32_t page = 0; page < 10'000; ++page) share[homes.of(page, 0)] += 1e-4;
    return share;
  };
  EXPECT_NEAR(shares(Routing::core, false)[0], 1.0, 1e-9);
  EXPECT_NEAR(shares(Routing::core, true)[0], 0.25, 0.02);
  EXPECT_NEAR(shares(Routing::core, true)[3], 0.75, 0.02);
  EXPECT_NEAR(shares(Routing::node, true)[1], 0.75, 0.02);
  EXPECT_NEAR(shares(Routing::any, true)[1], 0.375, 0.02);
  EXPECT_NEAR(shares(Routing::any, true)[3], 0.375, 0.02);
}

}  // namespace
}  // namespace pmoss::simulator
