#include "analytic/residence.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "workload/random.hpp"

namespace pmoss::analytic {
namespace {

TEST(Residents, EqualLinesHaveTheClosedForm) {
  Residents residents;
  residents.start(1);
  residents.lines()[0] = 1000.0;
  residents.rates()[0] = 0.01;
  // 1 - exp(-rate T) is the share that fits.
  EXPECT_NEAR(residents.solve(250.0, 0.0), -std::log(0.75) / 0.01, 1e-5);
  EXPECT_NEAR(residents.decay()[0], 0.75, 1e-8);
}

TEST(Residents, StayForEverWhereAllFit) {
  Residents residents;
  residents.start(2);
  residents.lines()[0] = residents.lines()[1] = 100.0;
  residents.rates()[0] = residents.rates()[1] = 1.0;
  EXPECT_TRUE(std::isinf(residents.solve(200.0, 0.0)));
  EXPECT_EQ(residents.decay()[1], 0.0);
}

TEST(SetSpread, HasTheMomentsOfTheGammaDistribution) {
  for (const int ways : {1, 8, 16}) {
    const SetSpread sets = SetSpread::of(ways);
    const auto moment = [&](int n) {
      return sets.crowded_share * std::pow(sets.crowded, n) +
             (1.0 - sets.crowded_share) * std::pow(sets.sparse, n);
    };
    EXPECT_NEAR(moment(1), 1.0, 1e-12);
    EXPECT_NEAR(moment(2), 1.0 + 1.0 / ways, 1e-12);
    EXPECT_NEAR(moment(3), (1.0 + 1.0 / ways) * (1.0 + 2.0 / ways), 1e-12);
  }
}

TEST(Residents, PassingLinesTakeTheirRoom) {
  Residents residents;
  residents.start(1);
  residents.lines()[0] = 100.0;
  residents.rates()[0] = 1.0;
  const double time = residents.solve(200.0, 25.0);
  EXPECT_NEAR(100.0 * (1.0 - std::exp(-time)) + 25.0 * time, 200.0, 1e-6);
}

TEST(Residents, FillTheCacheWhateverTheirPopularity) {
  Random random(3);
  for (int trial = 0; trial < 200; ++trial) {
    Residents residents;
    const std::size_t n = 1 + random.below(100);
    residents.start(n);
    double total = 0.0;
    std::vector<double> lines(n), rates(n);
    for (std::size_t i = 0; i < n; ++i) {
      lines[i] = std::exp(12.0 * random.uniform());
      rates[i] = std::exp(-20.0 * random.uniform());
      residents.lines()[i] = lines[i];
      residents.rates()[i] = rates[i];
      total += lines[i];
    }
    const double capacity = total * (0.001 + 0.998 * random.uniform());
    const double time = residents.solve(capacity, 0.0);
    double present = 0.0;
    for (std::size_t i = 0; i < n; ++i) present += lines[i] * (1.0 - std::exp(-rates[i] * time));
    ASSERT_NEAR(present / capacity, 1.0, 1e-7) << "trial " << trial;
  }
}

TEST(Residents, MissAsOftenAsAnLruCacheOfTheirSize) {
  // Two kinds of lines, drawn independently, against a real LRU list.
  constexpr std::uint64_t popular = 300, others = 3000, capacity = 800;
  Random random(11);
  std::list<std::uint64_t> recency;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> at;
  double touches = 0.0, misses = 0.0;
  for (int i = 0; i < 400'000; ++i) {
    const bool hot = random.uniform() < 0.5;
    const std::uint64_t line = hot ? random.below(popular) : popular + random.below(others);
    const auto resident = at.find(line);
    if (i > 50'000) {
      touches += 1.0;
      misses += resident == at.end() ? 1.0 : 0.0;
    }
    if (resident != at.end()) {
      recency.erase(resident->second);
    } else if (recency.size() == capacity) {
      at.erase(recency.back());
      recency.pop_back();
    }
    recency.push_front(line);
    at[line] = recency.begin();
  }
  Residents residents;
  residents.start(2);
  residents.lines()[0] = popular;
  residents.lines()[1] = others;
  residents.rates()[0] = 0.5 / popular;
  residents.rates()[1] = 0.5 / others;
  residents.solve(capacity, 0.0);
  const double expected = 0.5 * residents.decay()[0] + 0.5 * residents.decay()[1];
  EXPECT_NEAR(misses / touches, expected, 0.005);
}

}  // namespace
}  // namespace pmoss::analytic
