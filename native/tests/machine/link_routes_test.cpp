#include "machine/link_routes.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/machine/small_machine.hpp"

namespace pmoss {
namespace {

std::vector<std::uint32_t> listed(std::span<const std::uint32_t> links) {
  return {links.begin(), links.end()};
}

TEST(LinkRoutes, FollowTheNextSocketsInOrder) {
  Machine machine = small_machine();
  machine.socket_of_node = {0, 1, 2, 2};  // three sockets in a line
  machine.link_gb_per_s.assign(9, 20.0);
  machine.next_socket = {0, 1, 1, 0, 1, 2, 1, 1, 2};
  machine.complete();
  const LinkRoutes routes(machine);
  EXPECT_EQ(routes.links(), 9U);
  EXPECT_EQ(listed(routes.between(0, 2)), (std::vector<std::uint32_t>{1, 5}));
  EXPECT_EQ(listed(routes.between(2, 0)), (std::vector<std::uint32_t>{7, 3}));
  EXPECT_EQ(listed(routes.between(1, 2)), (std::vector<std::uint32_t>{5}));
  EXPECT_TRUE(routes.between(1, 1).empty());
  EXPECT_EQ(listed(routes.between_nodes(3, 0)), listed(routes.between(2, 0)));
  EXPECT_TRUE(routes.between_nodes(2, 3).empty());
}

}  // namespace
}  // namespace pmoss
