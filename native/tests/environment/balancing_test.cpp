#include "environment/balancing.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace pmoss::environment {
namespace {

using Placed = std::vector<std::int64_t>;

TEST(Balancing, EachSliceGoesToTheCoreThatThenEndsEarliest) {
  const std::array<double, 8> times{2, 2, 4, 4, 3, 3, 3, 3};
  const std::array<std::int64_t, 4> order{1, 2, 3, 0};
  EXPECT_EQ(place_in_order({times, 2}, order, 0), (Placed{0, 0, 1, 1}));
  EXPECT_EQ(place_in_order({times, 4}, std::array<std::int64_t, 2>{0, 1}, 1), (Placed{0, 1}));
}

TEST(Balancing, AnOrderNamesEachSliceOnce) {
  const std::array<double, 4> times{1, 1, 1, 1};
  for (const std::int64_t wrong : {-1, 0, 2}) {
    const std::array<std::int64_t, 2> order{0, wrong};
    EXPECT_THROW(place_in_order({times, 2}, order, 0), std::invalid_argument);
  }
  EXPECT_THROW(place_in_order({times, 2}, std::array<std::int64_t, 1>{0}, 0),
               std::invalid_argument);
}

TEST(Balancing, ExchangesEndWhatMovesCannot) {
  const std::array<double, 8> times{5, 5, 3, 3, 4, 4, 2, 2};
  Placed chosen{0, 0, 1, 1};
  balance({times, 2}, 0, 0, chosen);
  EXPECT_EQ(chosen, (Placed{0, 0, 1, 1})) << "no change is allowed";
  balance({times, 2}, 0, 400, chosen);
  EXPECT_EQ(chosen, (Placed{1, 0, 0, 1}));
}

TEST(Balancing, AFullCoreGetsNothingMore) {
  const std::array<double, 6> times{5, 1, 5, 1, 5, 1};
  Placed chosen{0, 0, 1};
  balance({times, 2}, 2, 400, chosen);
  EXPECT_EQ(chosen, (Placed{1, 0, 1}));
}

TEST(Balancing, UnknownTimesEndTheSearch) {
  const std::array<double, 4> times{std::nan(""), 1, 1, 1};
  Placed chosen{0, 0};
  balance({times, 2}, 0, 400, chosen);
  EXPECT_EQ(chosen, (Placed{0, 0}));
}

TEST(Balancing, CoresThatDoNotExistAreRefused) {
  const std::array<double, 4> times{1, 1, 1, 1};
  for (const std::int64_t wrong : {-1, 2}) {
    Placed chosen{0, wrong};
    EXPECT_THROW(balance({times, 2}, 0, 400, chosen), std::invalid_argument);
  }
  Placed one{0};
  EXPECT_THROW(balance({times, 2}, 0, 400, one), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::environment
