// Points: where they lie, hot regions, and the queries around them.
#include "workload/points.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

namespace pmoss {
namespace {

using Kind = Operation::Kind;

WorkloadSpec ranges(std::uint64_t records = 1'000'000) {
  WorkloadSpec spec;
  spec.lookup = 0.0;
  spec.scan = 1.0;
  spec.records = records;
  spec.space.kind = KeySpace::Kind::clustered;
  return spec;
}

std::vector<double> cell_shares(KeySpace::Kind kind, int samples) {
  const Grid grid;
  std::vector<double> share(grid.slices(), 0.0);
  for (int i = 0; i < samples; ++i) {
    share[grid.slice_of(point_of_record(kind, static_cast<std::uint64_t>(i)))] += 1.0 / samples;
  }
  return share;
}

TEST(Points, AreTheSameOnEveryMachine) {
  const Point scattered = point_of_record(KeySpace::Kind::scattered, 12345);
  const Point clustered = point_of_record(KeySpace::Kind::clustered, 12345);
  EXPECT_EQ(scattered.x, 799686084U);
  EXPECT_EQ(scattered.y, 3385644972U);
  EXPECT_EQ(clustered.x, 3508161283U);
  EXPECT_EQ(clustered.y, 3361379566U);
}

TEST(Points, ASampleKnowsWhereTheRecordsAre) {
  WorkloadSpec spec = ranges();
  spec.distribution = Distribution::hot_range;
  spec.hot_fraction = 0.05;
  const RecordSample sample(KeySpace::Kind::clustered, spec.records, Grid{});
  const Rectangle region = hot_region(spec);
  std::vector<double> share(256, 0.0), within(256, 0.0);
  for (std::uint64_t record = 0; record < spec.records; ++record) {
    const Point point = point_of_record(KeySpace::Kind::clustered, record);
    share[Grid{}.slice_of(point)] += 1.0 / static_cast<double>(spec.records);
    if (region.contains(point)) {
      within[Grid{}.slice_of(point)] += 1.0 / static_cast<double>(spec.records);
    }
  }
  const std::vector<double> sampled = sample.share_within(region);
  for (std::size_t cell = 0; cell < 256; ++cell) {
    const auto near = [](double value) {
      return 5.0 * std::sqrt(value / RecordSample::most_points) + 1e-5;
    };
    EXPECT_NEAR(sample.share()[cell], share[cell], near(share[cell])) << cell;
    EXPECT_NEAR(sampled[cell], within[cell], near(within[cell])) << cell;
  }
}

TEST(Points, ScatteredOnesFillTheCellsEvenly) {
  constexpr int samples = 256'000;
  double chi_square = 0.0;
  for (const double share : cell_shares(KeySpace::Kind::scattered, samples)) {
    const double expected = 1.0 / 256;
    chi_square += samples * (share - expected) * (share - expected) / expected;
  }
  EXPECT_LT(chi_square, 255 + 5 * std::sqrt(2.0 * 255));
}

TEST(Points, ClusteredOnesLeaveSeaAndCrowdCities) {
  auto share = cell_shares(KeySpace::Kind::clustered, 300'000);
  std::sort(share.begin(), share.end());
  const auto empty = std::count(share.begin(), share.end(), 0.0);
  EXPECT_GT(empty, 256 / 10);
  EXPECT_LT(empty, 256 * 4 / 10);
  EXPECT_GT(share.back(), 5.0 / 256);
  EXPECT_LT(share.back(), 0.15);
}

TEST(Grid, CellsCoverThePlaneInRows) {
  const Grid grid = grid_of(256);
  EXPECT_EQ(grid.rows, 16u);
  EXPECT_EQ(grid.columns, 16u);
  EXPECT_EQ(grid.slice_of({0, 0}), 0u);
  EXPECT_EQ(grid.slice_of({~0U, 0}), 15u);
  EXPECT_EQ(grid.slice_of({0, 1U << 28}), 16u);
  EXPECT_EQ(grid.slice_of({0, (1U << 28) - 1}), 0u);
  EXPECT_EQ(grid.slice_of({~0U, ~0U}), 255u);
  const Grid oblong = grid_of(8);
  EXPECT_EQ(oblong.rows, 2u);
  EXPECT_EQ(oblong.columns, 4u);
  EXPECT_THROW(grid_of(0), std::invalid_argument);
  EXPECT_THROW(grid_of(65537), std::invalid_argument);
}

TEST(HotRegion, HoldsItsShareOfTheRecords) {
  std::set<std::uint32_t> places;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    WorkloadSpec spec = ranges();
    spec.distribution = Distribution::hot_range;
    spec.hot_fraction = 0.1;
    spec.seed = seed;
    const Rectangle region = hot_region(spec);
    int inside = 0;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      inside += region.contains(point_of_record(spec.space.kind, i * 50)) ? 1 : 0;
    }
    EXPECT_NEAR(inside / 20'000.0, 0.1, 0.02) << seed;
    places.insert(region.x_low);
  }
  EXPECT_GT(places.size(), 6u);
}

TEST(PointGenerator, DrawsTheMixAskedFor) {
  WorkloadSpec spec = ranges();
  spec.lookup = 0.2;
  spec.insert = 0.3;
  spec.scan = 0.5;
  PointGenerator generator(spec, 7);
  constexpr int n = 40'000;
  int lookups = 0;
  int scans = 0;
  std::uint64_t inserted = spec.records;
  double areas = 0.0;
  for (int i = 0; i < n; ++i) {
    const PointOperation operation = generator.next();
    const Rectangle& range = operation.range;
    const Point point = point_of_record(spec.space.kind, operation.record);
    EXPECT_TRUE(range.contains(point));
    if (operation.kind == Kind::insert) {
      EXPECT_EQ(operation.record, inserted++);
    } else {
      EXPECT_LT(operation.record, spec.records);
    }
    if (operation.kind == Kind::lookup) ++lookups;
    if (operation.kind == Kind::scan) {
      ++scans;
      areas += (static_cast<double>(range.x_high) - range.x_low) *
               (static_cast<double>(range.y_high) - range.y_low);
    } else {
      EXPECT_EQ(range.x_low, range.x_high);
      EXPECT_EQ(range.y_low, range.y_high);
    }
  }
  EXPECT_NEAR(lookups / double{n}, 0.2, 0.01);
  EXPECT_NEAR(scans / double{n}, 0.5, 0.01);
  // 1 .. 100 points, 50.5 on average; squares at the border are cut.
  const double points = areas / scans / 0x1p64 * static_cast<double>(spec.records);
  EXPECT_NEAR(points, 50.5, 1.5);
}

TEST(PointGenerator, SendsTheHotShareToTheHotRegion) {
  WorkloadSpec spec = ranges();
  spec.distribution = Distribution::hot_range;
  spec.hot_share = 0.8;
  spec.hot_fraction = 0.05;
  const Rectangle region = hot_region(spec);
  PointGenerator generator(spec, 1);
  int hot = 0;
  for (int i = 0; i < 20'000; ++i) {
    hot += region.contains(point_of_record(spec.space.kind, generator.next().record)) ? 1 : 0;
  }
  EXPECT_NEAR(hot / 20'000.0, 0.8 + 0.2 * 0.05, 0.02);
}

TEST(PointGenerator, RepeatsForTheSameSeeds) {
  WorkloadSpec spec = ranges();
  spec.distribution = Distribution::zipf;
  PointGenerator a(spec, 3);
  PointGenerator b(spec, 3);
  PointGenerator c(spec, 4);
  int differing = 0;
  for (int i = 0; i < 1'000; ++i) {
    const auto range = a.next().range;
    EXPECT_EQ(range, b.next().range);
    differing += range == c.next().range ? 0 : 1;
  }
  EXPECT_GT(differing, 900);
}

TEST(PointGenerator, RefusesWhatPointsCannotDo) {
  const auto refused = [](auto change) {
    WorkloadSpec spec = ranges();
    change(spec);
    EXPECT_THROW(PointGenerator(spec, 0), std::invalid_argument);
  };
  refused([](WorkloadSpec& spec) {
    spec.scan = 0.5;
    spec.update = 0.5;
  });
  refused([](WorkloadSpec& spec) { spec.records = 0; });
  refused([](WorkloadSpec& spec) {
    spec.distribution = Distribution::hot_range;
    spec.hot_fraction = 0.001;
  });
  refused([](WorkloadSpec& spec) {
    spec.distribution = Distribution::hot_range;
    spec.drift = 1.0;
  });
}

}  // namespace
}  // namespace pmoss
