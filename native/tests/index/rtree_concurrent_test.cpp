// Inserts and queries at once: no point that was there is missed, none is found twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "index/rtree.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

TEST(RTreeConcurrent, ReadersMissNothingWhileWritersSplitNodes) {
  // One cell takes most of the load, so that its nodes are split under its readers.
  constexpr std::uint32_t top = ~std::uint32_t{0};
  constexpr std::size_t loaded = 2'000;
  const std::size_t added = 20'000;
  const auto place = [](std::uint64_t i) {
    Point point = point_of_record(KeySpace::Kind::scattered, i);
    if (i % 4 != 0) point = {point.x >> 2, point.y >> 2};
    return point;
  };
  std::vector<Point> points;
  std::vector<std::uint64_t> values;
  for (std::uint64_t i = 0; i < loaded; ++i) {
    points.push_back(place(i));
    values.push_back(i);
  }
  RTree tree({.grid = {2, 2}, .fanout = 8, .huge_pages = false});
  tree.bulk_load(points, values);

  std::atomic<int> writing{2};
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::uint64_t i = loaded + writer; i < loaded + added; i += 2) tree.insert(place(i), i);
      --writing;
    });
  }
  for (std::uint64_t reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&, reader] {
      Random random(reader);
      std::vector<std::uint64_t> values;
      do {
        const Point a = points[random.below(loaded)];
        const Point b = points[random.below(loaded)];
        const Rectangle range = {std::min(a.x, b.x), std::min(a.y, b.y), std::max(a.x, b.x),
                                 std::max(a.y, b.y)};
        values.clear();
        if (random.below(2) == 0) {
          tree.find(range, values);
        } else {  // the second of two: others are on their way with it
          std::size_t ends[2];
          const Rectangle ranges[] = {{0, 0, a.x, a.y}, range};
          tree.find_batch(ranges, values, ends);
          values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(ends[0]));
        }
        std::sort(values.begin(), values.end());
        ASSERT_EQ(std::adjacent_find(values.begin(), values.end()), values.end());
        for (const auto value : values) ASSERT_TRUE(range.contains(place(value)));
        std::size_t expected = 0;
        for (std::size_t i = 0; i < loaded; ++i) expected += range.contains(points[i]) ? 1 : 0;
        const auto end = std::lower_bound(values.begin(), values.end(), loaded);
        ASSERT_EQ(static_cast<std::size_t>(end - values.begin()), expected);
      } while (writing.load() > 0);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(tree.size(), loaded + added);
  std::vector<std::uint64_t> all;
  tree.find({0, 0, top, top}, all);
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), loaded + added);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
}

}  // namespace
}  // namespace pmoss
