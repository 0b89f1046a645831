// How a window's counts are shared out over its queries.
#include "runtime/window.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pmoss::runtime {
namespace {

// What a worker does with its tally and its window.
class Books {
 public:
  explicit Books(std::size_t slices = 3)
      : counters(slices * 2), counted(slices * 2), window(slices), slices_(slices) {}

  void query(std::uint32_t slice, std::uint64_t ticks) {
    ++slices_[slice].queries;
    slices_[slice].service_ticks += ticks;
    window.touch(slice);
    window.look_at(slice, ticks);
  }
  void extend(std::uint32_t slice, std::uint64_t ticks) { slices_[slice].service_ticks += ticks; }
  void begin() { window.begin(slices_); }
  void change_tally() {
    slices_.assign(slices_.size(), Tally::Slice{});
    window.change_tally();
  }

  // Two events in two groups, of which the second ran half of the time.
  void book(double first_count, double second_count, double processor_ticks = -1.0) {
    const std::array<double, 2> counts{first_count, second_count};
    const std::array<double, 2> weights{1.0, 0.5};
    window.book(slices_, {counts, of_waits, weights, processor_ticks}, counters, counted);
  }

  std::vector<double> counters;
  std::vector<double> counted;
  std::array<std::uint8_t, 2> of_waits{};
  Window window;

 private:
  std::vector<Tally::Slice> slices_;
};

TEST(Window, AQuerysPartIsItsPartOfTheTime) {
  Books books;
  books.query(0, 100);
  books.query(2, 600);
  books.query(0, 200);
  books.query(1, 100);
  books.book(1000.0, 40.0);
  const std::vector<double> counters{300.0, 12.0, 100.0, 4.0, 600.0, 24.0};
  for (std::size_t i = 0; i < counters.size(); ++i) {
    EXPECT_DOUBLE_EQ(books.counters[i], counters[i]) << i;
  }
  // However long it took, a query is one query.
  EXPECT_EQ(books.counted, (std::vector<double>{2.0, 1.0, 1.0, 0.5, 1.0, 0.5}));
}

TEST(Window, WindowsAddUp) {
  Books books;
  for (const std::uint64_t ticks : {1, 3}) {
    books.query(0, ticks);
    books.query(1, 4 - ticks);
    books.book(8.0, 0.0);
  }
  EXPECT_EQ(books.counters, (std::vector<double>{8.0, 0.0, 8.0, 0.0, 0.0, 0.0}));
  EXPECT_EQ(books.counted, (std::vector<double>{2.0, 1.0, 2.0, 1.0, 0.0, 0.0}));
}

TEST(Window, QueriesBetweenWindowsHaveNoPart) {
  for (const std::uint32_t between : {1U, 1000U}) {
    Books books;
    books.query(0, 10);
    books.book(8.0, 0.0);
    for (std::uint32_t i = 0; i < between; ++i) books.query(1, 10);
    books.begin();
    books.query(2, 10);
    books.book(8.0, 0.0);
    EXPECT_EQ(books.counters, (std::vector<double>{8.0, 0.0, 0.0, 0.0, 8.0, 0.0}));
    EXPECT_EQ(books.counted, (std::vector<double>{1.0, 0.5, 0.0, 0.0, 1.0, 0.5}));
  }
}

TEST(Window, ManySlicesAreBookedLikeFew) {
  constexpr std::uint32_t slices = 64;
  // Few are kept in a list. With more, all slices are looked at.
  for (const std::uint32_t queried : {4U, 63U}) {
    Books books(slices);
    for (int window = 0; window < 2; ++window) {
      for (std::uint32_t i = 0; i < 2 * queried; ++i) books.query(slices - 1 - i % queried, 1);
      books.book(2.0 * queried, 0.0);
    }
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      const double expected = slice >= slices - queried ? 4.0 : 0.0;
      EXPECT_DOUBLE_EQ(books.counters[std::size_t{slice} * 2], expected) << slice;
      EXPECT_DOUBLE_EQ(books.counted[std::size_t{slice} * 2], expected) << slice;
    }
  }
}

TEST(Window, AnotherTallyBeginsWithNothing) {
  Books books;
  books.query(0, 10);
  books.query(1, 10);
  books.book(8.0, 0.0);
  books.change_tally();
  books.begin();
  books.query(1, 5);
  books.book(2.0, 0.0);
  EXPECT_EQ(books.counters, (std::vector<double>{4.0, 0.0, 6.0, 0.0, 0.0, 0.0}));
}

TEST(Window, TheLastQueryCanTakeLonger) {
  Books books;
  books.query(0, 10);
  books.query(1, 10);
  books.extend(1, 20);
  books.book(8.0, 0.0);
  EXPECT_DOUBLE_EQ(books.counters[0], 2.0);
  EXPECT_DOUBLE_EQ(books.counters[2], 6.0);
}

TEST(Window, AWaitIsTakenOffTheQueryThatTookLongest) {
  Books books;
  books.of_waits = {0, 1};
  books.query(2, 10);
  books.query(1, 930);
  books.query(2, 20);
  books.query(1, 40);
  // On the processor for 100 of the 1000 ticks.
  books.book(50.0, 1.0, 100.0);
  EXPECT_DOUBLE_EQ(books.counters[4], 15.0);
  EXPECT_DOUBLE_EQ(books.counters[2], 35.0);
  // Who waited has brought the wait about.
  EXPECT_DOUBLE_EQ(books.counters[3], 0.97);
  EXPECT_DOUBLE_EQ(books.counters[5], 0.03);
}

TEST(Window, NoQueryWaitedLongerThanItTook) {
  Books books;
  books.query(0, 10);
  books.query(1, 30);
  books.window.skip(960);
  books.book(40.0, 0.0, 0.0);
  for (const double count : books.counters) {
    EXPECT_GE(count, 0.0);
    EXPECT_LE(count, 40.0);
  }
  // As much as the processor was there for: no counter has waited.
  books.query(0, 10);
  books.query(1, 30);
  books.counters.assign(books.counters.size(), 0.0);
  books.book(40.0, 0.0, 41.0);
  EXPECT_DOUBLE_EQ(books.counters[0], 10.0);
  EXPECT_DOUBLE_EQ(books.counters[2], 30.0);
}

TEST(Window, TimeOfNoQueryTakesItsPartAlong) {
  Books books;
  books.window.skip(50);
  books.query(0, 100);
  books.query(1, 50);
  books.book(8.0, 0.0);
  EXPECT_DOUBLE_EQ(books.counters[0], 4.0);
  EXPECT_DOUBLE_EQ(books.counters[2], 2.0);
  // Only for the window in which it was.
  books.query(2, 10);
  books.book(8.0, 0.0);
  EXPECT_DOUBLE_EQ(books.counters[4], 8.0);
}

TEST(Window, WithoutTimesThePartsAreEqual) {
  Books books;
  books.window.skip(3);
  books.query(0, 0);
  books.query(1, 0);
  books.query(1, 0);
  books.query(2, 0);
  books.book(8.0, 4.0);
  EXPECT_EQ(books.counters, (std::vector<double>{2.0, 1.0, 4.0, 2.0, 2.0, 1.0}));
}

}  // namespace
}  // namespace pmoss::runtime
