// How a window's counts are shared out over its queries.
#include "runtime/window.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace pmoss::runtime {
namespace {

constexpr std::size_t slices = 3;

// Two events in two groups, of which the second ran half of the time.
struct Books {
  std::vector<double> counters = std::vector<double>(slices * 2);
  std::vector<double> counted = std::vector<double>(slices * 2);

  void add(const Window& window, double first_count, double second_count) {
    const std::array<double, 2> counts{first_count, second_count};
    const std::array<double, 2> weights{1.0, 0.5};
    window.book(counts, weights, counters, counted);
  }
};

TEST(Window, AQuerysPartIsItsPartOfTheTime) {
  Window window(slices, 4);
  window.add(0, 100);
  window.add(2, 600);
  window.add(0, 200);
  EXPECT_FALSE(window.full());
  window.add(1, 100);
  EXPECT_TRUE(window.full());
  Books books;
  books.add(window, 1000.0, 40.0);
  const std::vector<double> counters{300.0, 12.0, 100.0, 4.0, 600.0, 24.0};
  for (std::size_t i = 0; i < counters.size(); ++i) {
    EXPECT_DOUBLE_EQ(books.counters[i], counters[i]) << i;
  }
  // However long it took, a query is one query.
  EXPECT_EQ(books.counted, (std::vector<double>{2.0, 1.0, 1.0, 0.5, 1.0, 0.5}));
}

TEST(Window, WindowsAddUp) {
  Window window(slices, 2);
  Books books;
  for (const std::uint64_t ticks : {1, 3}) {
    window.clear();
    EXPECT_EQ(window.size(), 0U);
    window.add(0, ticks);
    window.add(1, 4 - ticks);
    books.add(window, 8.0, 0.0);
  }
  EXPECT_EQ(books.counters, (std::vector<double>{8.0, 0.0, 8.0, 0.0, 0.0, 0.0}));
  EXPECT_EQ(books.counted, (std::vector<double>{2.0, 1.0, 2.0, 1.0, 0.0, 0.0}));
}

TEST(Window, TheLastQueryCanTakeLonger) {
  Window window(slices, 4);
  window.add(0, 10);
  window.add(1, 10);
  window.extend(20);
  Books books;
  books.add(window, 8.0, 0.0);
  EXPECT_DOUBLE_EQ(books.counters[0], 2.0);
  EXPECT_DOUBLE_EQ(books.counters[2], 6.0);
}

TEST(Window, TimeOfNoQueryTakesItsPartAlong) {
  Window window(slices, 2);
  window.skip(50);
  window.add(0, 100);
  window.add(1, 50);
  Books books;
  books.add(window, 8.0, 0.0);
  EXPECT_DOUBLE_EQ(books.counters[0], 4.0);
  EXPECT_DOUBLE_EQ(books.counters[2], 2.0);
  // Only for the window in which it was.
  window.clear();
  window.add(2, 10);
  books.add(window, 8.0, 0.0);
  EXPECT_DOUBLE_EQ(books.counters[4], 8.0);
}

TEST(Window, WithoutTimesThePartsAreEqual) {
  Window window(slices, 8);
  window.skip(3);
  window.add(0, 0);
  window.add(1, 0);
  window.add(1, 0);
  window.add(2, 0);
  Books books;
  books.add(window, 8.0, 4.0);
  EXPECT_EQ(books.counters, (std::vector<double>{2.0, 1.0, 4.0, 2.0, 2.0, 1.0}));
}

}  // namespace
}  // namespace pmoss::runtime
