#include "analytic/btree_profile.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/analytic/small_workload.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::analytic {
namespace {

/// The model and the machine must agree on which slices are hot.
void expect_shares_of_the_generator(const WorkloadSpec& workload, int slices) {
  const SliceProfiles p = BTreeProfiler(workload, slices).profiles(workload.seed);
  OperationGenerator generator(workload, 5, workload.records, 1);
  constexpr int draws = 400'000;
  std::vector<double> queries(static_cast<std::size_t>(slices), 0.0);
  for (int i = 0; i < draws; ++i) {
    queries[slice_of_key(generator.next().key, static_cast<std::uint32_t>(slices))] += 1.0;
  }
  double chi_square = 0.0;
  for (std::size_t s = 0; s < queries.size(); ++s) {
    const double expected = draws * p.share[s];
    if (expected < 5.0) continue;
    chi_square += (queries[s] - expected) * (queries[s] - expected) / expected;
  }
  // 63 degrees of freedom: 99.99 % of samples lie below 115. Ranks beyond the individually placed
  // ones are taken as uniform, which adds a little.
  EXPECT_LT(chi_square, 130.0);
}

TEST(Profile, SharesAreADistribution) {
  const SliceProfiles p = BTreeProfiler(lookups_and_inserts(1'000'000), 256).profiles(3);
  EXPECT_NEAR(std::accumulate(p.share.begin(), p.share.end(), 0.0), 1.0, 1e-12);
  for (const double share : p.share) EXPECT_GT(share, 0.0);
}

TEST(Profile, SharesAreThoseOfTheGenerator) {
  WorkloadSpec workload = lookups_and_inserts(1'000'000);
  workload.seed = 11;
  expect_shares_of_the_generator(workload, 64);
}

TEST(Profile, SharesOfZipfInOrderAreThoseOfTheGenerator) {
  for (const auto kind : {KeySpace::Kind::scattered, KeySpace::Kind::clustered}) {
    for (const double theta : {0.5, 0.99}) {
      WorkloadSpec workload = lookups_and_inserts(1'000'000);
      workload.seed = 4;
      workload.theta = theta;
      workload.zipf_items = 3 * workload.records / 2;  // a part falls on any record
      workload.space = {kind};
      workload.space.in_order = workload.records;
      expect_shares_of_the_generator(workload, 64);
    }
  }
}

TEST(Profile, LinesOfZipfInOrderAreThoseOfUniformRecords) {
  // Bands cut the leaves, they add none.
  const auto lines = [](const WorkloadSpec& workload) {
    const SliceProfiles p = BTreeProfiler(workload, 16).profiles(2);
    return std::accumulate(p.lines.begin(), p.lines.end(), 0.0);
  };
  WorkloadSpec ordered = lookups_and_inserts(1'000'000);
  ordered.space.in_order = ordered.records;
  WorkloadSpec uniform = lookups_and_inserts(1'000'000);
  uniform.distribution = Distribution::uniform;
  EXPECT_NEAR(lines(ordered) / lines(uniform), 1.0, 1e-6);
}

TEST(Profile, InstancesDifferAndRepeat) {
  const BTreeProfiler profiler(lookups_and_inserts(1'000'000), 256);
  EXPECT_EQ(profiler.profiles(1).share, profiler.profiles(1).share);
  EXPECT_NE(profiler.profiles(1).share, profiler.profiles(2).share);
}

TEST(Profile, UniformLookupsMakeEqualSlices) {
  WorkloadSpec workload;
  const SliceProfiles p = BTreeProfiler(workload, 100).profiles(1);
  for (const double share : p.share) EXPECT_NEAR(share, 0.01, 1e-12);
  for (const double dirty : p.dirty_share) EXPECT_EQ(dirty, 0.0);
}

TEST(Profile, RefusesImpossibleRequests) {
  EXPECT_THROW(BTreeProfiler(lookups_and_inserts(1'000'000), 0), std::invalid_argument);
  EXPECT_THROW(BTreeProfiler(lookups_and_inserts(1'000'000), 100'000), std::invalid_argument);
  WorkloadSpec workload = lookups_and_inserts(1'000'000);
  workload.insert = 0.9;
  EXPECT_THROW(BTreeProfiler(workload, 16), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::analytic
