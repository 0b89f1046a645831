// Points: where they lie, hot regions, and the queries around them.
#include "workload/points.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
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
  const RecordSample sample(spec.space, spec.records, Grid{});
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

/// Sorted by x, as files often are; half of the points lie in the left tenth of the plane.
std::shared_ptr<const PointSet> sorted_points(std::uint32_t n) {
  const auto set = std::make_shared<PointSet>(n);
  std::vector<Point> points(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const double part = i / (n - 1.0);
    const double x = part < 0.5 ? 0.2 * part : 0.1 + 1.8 * (part - 0.5);
    points[i] = {static_cast<std::uint32_t>(x * ~0U), ~0U / n * i};
  }
  set->set(0, points);
  return set;
}

TEST(PointSet, RecordsAreItsPointsEachOnceInAnOrderOfItsOwn) {
  for (const std::uint32_t n : {2U, 3U, 1000U, 1024U, 1025U}) {
    const auto set = sorted_points(n);
    std::set<std::uint32_t> places;
    std::uint32_t steps = 0;
    for (std::uint32_t record = 0; record < n; ++record) {
      const std::uint32_t y = set->of_record(record).y;
      places.insert(y);
      steps += record > 0 && y > set->of_record(record - 1).y ? 1 : 0;
    }
    EXPECT_EQ(places.size(), n);
    EXPECT_EQ(*places.rbegin(), ~0U / n * (n - 1));
    if (n >= 1000) {
      EXPECT_NEAR(steps, n / 2.0, 5 * std::sqrt(n / 12.0));
    }
  }
}

TEST(PointSet, TheOrderIsTheSameOnEveryMachine) {
  const auto set = sorted_points(1000);
  std::vector<std::uint32_t> order;
  for (std::uint64_t r = 0; r < 5; ++r) order.push_back(set->of_record(r).y / (~0U / 1000));
  EXPECT_EQ(order, (std::vector<std::uint32_t>{637, 14, 557, 902, 575}));
}

TEST(PointSet, TheFirstRecordsLieWhereAllDo) {
  constexpr std::uint32_t n = 1'000'000;
  const KeySpace space{.kind = KeySpace::Kind::points, .points = sorted_points(n)};
  std::vector<double> share(256, 0.0);
  for (std::uint64_t record = 0; record < n; ++record) {
    share[Grid{}.slice_of(point_of_record(space, record))] += 1.0 / n;
  }
  const RecordSample sample(space, n, Grid{});
  for (std::size_t cell = 0; cell < 256; ++cell) {
    const double near = 5.0 * std::sqrt(share[cell] / RecordSample::most_points) + 1e-5;
    EXPECT_NEAR(sample.share()[cell], share[cell], near) << cell;
  }
}

TEST(PointSet, RecordsBehindTheLastLieBesideThoseBefore) {
  const auto set = sorted_points(3);  // one of them in either corner
  for (std::uint64_t record = 0; record < 3; ++record) {
    const Point point = set->of_record(record);
    for (const std::uint32_t lap : {1U, 2U, 100U}) {
      const Point beside = set->of_record(record + std::uint64_t{3} * lap);
      EXPECT_EQ(std::max(beside.x, point.x) - std::min(beside.x, point.x), lap);
      EXPECT_EQ(beside.y, point.y);
    }
  }
}

TEST(PointSet, RefusesWhatItCannotHold) {
  EXPECT_THROW(PointSet{0}, std::invalid_argument);
  EXPECT_THROW(PointSet{1}, std::invalid_argument);
  PointSet set(3);
  const std::vector<Point> two(2);
  set.set(1, two);
  EXPECT_THROW(set.set(2, two), std::invalid_argument);
  EXPECT_THROW(set.set(~std::uint64_t{0}, two), std::invalid_argument);
  WorkloadSpec spec = ranges(4);
  spec.space = {.kind = KeySpace::Kind::points};
  EXPECT_THROW(validate_points(spec), std::invalid_argument);  // no set
  spec.space.points = sorted_points(3);
  EXPECT_THROW(validate_points(spec), std::invalid_argument);  // 4 records of 3 points
  spec.records = 3;
  validate_points(spec);
  EXPECT_THROW(OperationGenerator(spec, 0, 3, 1), std::invalid_argument);  // no keys
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
