#include "recording/sort_keys.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "workload/random.hpp"

namespace pmoss::recording {
namespace {

TEST(SortKeys, SortsLikeTheStandardLibrary) {
  const std::vector<std::function<std::uint64_t(Random&)>> draws = {
      [](Random& random) { return random.next(); },
      [](Random& random) { return random.below(1000); },        // many repeats
      [](Random& random) { return ~random.below(1'000'000); },  // the top digits all alike
      [](Random& random) { return random.next() >> random.below(64); },
      [](Random&) { return std::uint64_t{7}; },
  };
  Random random(3);
  for (const auto& draw : draws) {
    for (const std::size_t n : {0u, 1u, 2u, 95u, 96u, 97u, 5000u, 200'000u, 1'100'000u}) {
#if defined(PMOSS_SANITIZED)
      if (n > 5000 && &draw != &draws.front()) continue;  // the same code again, for seconds
#endif
      std::vector<std::uint64_t> keys(n);
      for (auto& key : keys) key = draw(random);
      auto expected = keys;
      std::sort(expected.begin(), expected.end());
      sort_keys(keys);
      ASSERT_TRUE(keys == expected) << n;
    }
  }
}

}  // namespace
}  // namespace pmoss::recording
