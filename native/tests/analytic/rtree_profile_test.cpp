// Profiles fitted to an instance against the profile of that instance's own recording.
#include "analytic/rtree_profile.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "analytic/trace_profile.hpp"
#include "recording/record_rtree.hpp"
#include "tests/analytic/small_workload.hpp"

namespace pmoss::analytic {
namespace {

constexpr int slices = 64;

WorkloadSpec ranges(Distribution distribution, double insert) {
  WorkloadSpec spec;
  spec.lookup = 0.0;
  spec.insert = insert;
  spec.scan = 1.0 - insert;
  spec.distribution = distribution;
  spec.hot_share = 0.8;
  spec.hot_fraction = 0.05;
  spec.records = 500'000;
  spec.max_scan_length = 10;
  spec.space.kind = KeySpace::Kind::clustered;
  return spec;
}

double touches(const SliceProfiles& p) {
  double sum = 0.0;
  for (std::size_t k = 0; k < p.classes(); ++k) sum += p.lines[k] * p.line_rate[k];
  return sum;
}

double written(const SliceProfiles& p) {
  double sum = 0.0;
  for (std::size_t k = 0; k < p.classes(); ++k) {
    sum += p.lines[k] * p.line_rate[k] * p.dirty_share[k];
  }
  return sum;
}

/// Lines touched per query that were not touched in the last so many queries.
double missed(const SliceProfiles& p, double queries) {
  double sum = 0.0;
  for (std::size_t k = 0; k < p.classes(); ++k) {
    sum += p.lines[k] * p.line_rate[k] * std::exp(-p.line_rate[k] * queries);
  }
  return sum;
}

void expect_alike(const SliceProfiles& fitted, const SliceProfiles& own, double touched,
                  double reused) {
  EXPECT_NEAR(touches(fitted) / touches(own), 1.0, touched);
  for (const double queries : {1000.0, 10'000.0}) {
    EXPECT_NEAR(missed(fitted, queries) / missed(own, queries), 1.0, reused) << queries;
  }
  double different = 0.0;
  for (std::size_t s = 0; s < slices; ++s) different += std::abs(fitted.share[s] - own.share[s]);
  EXPECT_LT(different, 0.06);
}

TEST(RTreeProfile, AHotRegionIsFittedToTheInstance) {
  WorkloadSpec spec = ranges(Distribution::hot_range, 0.0);
  const RTreeProfiler profiler(spec, slices, every_touch());
  for (const std::uint64_t seed : {3, 4}) {
    spec.seed = seed;
    expect_alike(profiler.profiles(seed),
                 profile_trace(*recording::record_rtree(spec, slices, every_touch())), 0.10, 0.05);
  }
}

TEST(RTreeProfile, InsertsFollowTheDensityOfThePoints) {
  WorkloadSpec spec = ranges(Distribution::hot_range, 0.2);
  const SliceProfiles fitted = RTreeProfiler(spec, slices, every_touch()).profiles(5);
  spec.seed = 5;
  const SliceProfiles own = profile_trace(*recording::record_rtree(spec, slices, every_touch()));
  expect_alike(fitted, own, 0.10, 0.20);
  EXPECT_NEAR(written(fitted) / written(own), 1.0, 0.10);
}

TEST(RTreeProfile, WithoutAHotRegionAllInstancesAreAlike) {
  WorkloadSpec spec = ranges(Distribution::uniform, 0.0);
  const RTreeProfiler profiler(spec, slices, every_touch());
  EXPECT_EQ(profiler.profiles(1).share, profiler.profiles(2).share);
  spec.seed = 9;
  expect_alike(profiler.profiles(9),
               profile_trace(*recording::record_rtree(spec, slices, every_touch())), 0.01, 0.02);
}

TEST(RTreeProfile, RefusesZipf) {
  EXPECT_THROW(RTreeProfiler(ranges(Distribution::zipf, 0.0), slices, every_touch()),
               std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::analytic
