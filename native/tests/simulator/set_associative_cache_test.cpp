#include "simulator/set_associative_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "workload/random.hpp"

namespace pmoss::simulator {
namespace {

// One set as a list, the most recent line first. The cache's hash decides which lines share a set,
// so one set is compared at a time.
class ReferenceSet {
 public:
  explicit ReferenceSet(int ways) : ways_(static_cast<std::size_t>(ways)) {}

  bool touch(std::uint32_t line) {
    const auto at = std::find(lines_.begin(), lines_.end(), line);
    if (at == lines_.end()) return false;
    std::rotate(lines_.begin(), at, at + 1);
    return true;
  }
  std::uint32_t insert(std::uint32_t line) {
    std::uint32_t out = SetAssociativeCache::none;
    if (lines_.size() == ways_) {
      out = lines_.back();
      lines_.pop_back();
    }
    lines_.insert(lines_.begin(), line);
    return out;
  }
  bool erase(std::uint32_t line) { return std::erase(lines_, line) == 1; }

 private:
  std::size_t ways_;
  std::vector<std::uint32_t> lines_;
};

class EveryNumberOfWays : public testing::TestWithParam<int> {};

TEST_P(EveryNumberOfWays, BehavesLikeTheReference) {
  const int ways = GetParam();
  SetAssociativeCache cache(3, {1, ways});
  ReferenceSet reference(ways);
  Random random(static_cast<std::uint64_t>(ways));
  for (int i = 0; i < 20'000; ++i) {
    const auto line = static_cast<std::uint32_t>(random.below(24));
    if (random.below(8) == 0) {
      ASSERT_EQ(cache.erase(1, line), reference.erase(line)) << i;
      continue;
    }
    const bool hit = cache.touch(1, line);
    ASSERT_EQ(hit, reference.touch(line)) << i;
    if (!hit) {
      ASSERT_EQ(cache.insert(1, line), reference.insert(line)) << i;
    }
  }
  EXPECT_FALSE(cache.contains(0, 1) || cache.contains(2, 1)) << "caches share nothing";
}

INSTANTIATE_TEST_SUITE_P(Ways, EveryNumberOfWays, testing::Values(1, 2, 7, 8, 11, 12, 15, 16));

TEST(SetAssociativeCache, VectorsFindWhatALoopFinds) {
  Random random(1);
  TagSet set;
  for (int i = 0; i < 10'000; ++i) {
    for (auto& tag : set.tags) tag = static_cast<std::uint32_t>(random.below(4)) - 2;
    const auto tag = static_cast<std::uint32_t>(random.below(4)) - 2;
    ASSERT_EQ(matches(set, tag), matches_scalar(set, tag));
  }
}

TEST(SetAssociativeCache, HoldsAllLinesOfHalfItsSizeAndKeepsItsShape) {
  const CacheShape shape = CacheShape::of(270'336.0 / 64.0, 11);
  EXPECT_EQ(shape.sets, 384U);
  EXPECT_EQ(shape.ways, 11);
  SetAssociativeCache cache(1, shape);
  for (std::uint32_t line = 0; line < 2112; ++line) cache.insert(0, line);
  for (std::uint32_t line = 0; line < 2112; ++line) ASSERT_TRUE(cache.contains(0, line));
  EXPECT_EQ(CacheShape::of(3.0, 8).ways, 3);
  EXPECT_EQ(CacheShape::of(0.2, 8).ways, 1);
}

TEST(SetAssociativeCache, RefusesShapesItCannotHave) {
  EXPECT_THROW(SetAssociativeCache(1, {1, 0}), std::invalid_argument);
  EXPECT_THROW(SetAssociativeCache(1, {1, 17}), std::invalid_argument);
  EXPECT_THROW(SetAssociativeCache(1, {0, 4}), std::invalid_argument);
  EXPECT_THROW(SetAssociativeCache(0, {1, 4}), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::simulator
