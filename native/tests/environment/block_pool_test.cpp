#include "environment/block_pool.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace pmoss::environment {
namespace {

TEST(BlockPool, LendsAgainWhatCameBackAndNothingElse) {
  const auto pool = std::make_shared<BlockPool>(64, 2);
  auto first = pool->take();
  auto second = pool->take();
  EXPECT_NE(first->data(), second->data());
  const std::byte* at = first->data();
  first.reset();
  EXPECT_EQ(pool->take()->data(), at);
}

TEST(BlockPool, KeepsNoMoreThanItsSpares) {
  const auto pool = std::make_shared<BlockPool>(64, 1);
  auto first = pool->take();
  auto second = pool->take();
  const std::byte* at = first->data();
  first.reset();
  second.reset();  // goes back to the system
  auto third = pool->take();
  auto fourth = pool->take();
  EXPECT_EQ(third->data(), at);
  EXPECT_NE(fourth->data(), at);
}

TEST(BlockPool, LivesAsLongAsItsLoans) {
  auto pool = std::make_shared<BlockPool>(64, 1);
  const std::weak_ptr<BlockPool> watch = pool;
  auto loan = pool->take();
  pool.reset();
  EXPECT_FALSE(watch.expired());
  loan->data()[63] = std::byte{1};
  loan.reset();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace pmoss::environment
