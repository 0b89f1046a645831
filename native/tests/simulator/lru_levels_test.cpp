#include "simulator/lru_levels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "workload/random.hpp"

namespace pmoss::simulator {
namespace {

// One line after the other, as the simulator touches its caches.
std::vector<std::uint64_t> misses_one_by_one(std::span<const CacheShape> shapes,
                                             std::span<const std::uint32_t> lines) {
  std::vector<SetAssociativeCache> levels;
  for (const CacheShape& shape : shapes) levels.emplace_back(1, shape);
  std::vector<std::uint64_t> misses(shapes.size());
  for (const std::uint32_t line : lines) {
    for (std::size_t l = 0; l < levels.size() && !levels[l].access(0, line); ++l) ++misses[l];
  }
  return misses;
}

// Half of the lines are few, so that every place of a set is hit.
std::vector<std::uint32_t> stream(std::size_t n, std::uint32_t few, std::uint32_t many) {
  Random random(7);
  std::vector<std::uint32_t> lines(n);
  for (std::uint32_t& line : lines) {
    line = static_cast<std::uint32_t>(random.below(random.below(2) == 0 ? few : many));
  }
  return lines;
}

class EveryLruKernel : public testing::TestWithParam<int> {};

TEST_P(EveryLruKernel, MissesWhatOneCacheAfterTheOtherMisses) {
  const int ways = GetParam();
  const std::array<CacheShape, 3> shapes{{{3, ways}, {16, 8}, {5000, 16}}};
  const std::vector<std::uint32_t> lines = stream(100'000, 60, 200'000);
  const std::vector<std::uint64_t> wanted = misses_one_by_one(shapes, lines);
  for (const LruKernel& kernel : lru_kernels()) {
    LruLevels levels(shapes, kernel);
    const std::span<const std::uint32_t> all(lines);
    // Neither call ends with a block.
    levels.access(all.first(33'333));
    levels.access(all.subspan(33'333));
    ASSERT_EQ((std::vector<std::uint64_t>(levels.misses().begin(), levels.misses().end())), wanted)
        << kernel.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, EveryLruKernel, testing::Range(1, 17));

TEST(LruLevels, RefuseShapesTheyCannotHave) {
  for (const CacheShape shape : {CacheShape{1, 0}, CacheShape{1, 17}, CacheShape{0, 4}}) {
    const std::array<CacheShape, 2> shapes{{{4, 4}, shape}};
    EXPECT_THROW(LruLevels{shapes}, std::invalid_argument);
  }
  EXPECT_THROW(LruLevels{std::span<const CacheShape>{}}, std::invalid_argument);
  EXPECT_STREQ(lru_kernels().back().name, "scalar");
}

}  // namespace
}  // namespace pmoss::simulator
