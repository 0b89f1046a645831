#include "recording/micro_trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

namespace pmoss::recording {
namespace {

TEST(MicroTrace, AChaseGoesThroughAllLinesOfEachSlice) {
  const auto trace = pointer_chase(3, 100, 600);
  ASSERT_EQ(trace->size(), 600U);
  EXPECT_EQ(trace->lines(), 300U);
  std::map<std::uint32_t, int> times;
  bool in_order = true;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    const TracedQuery& query = trace->queries[i];
    ASSERT_EQ(trace->touches_of(i).size(), 1U);
    const Touch touch = trace->touches_of(i)[0];
    EXPECT_EQ(query.slice, i % 3);
    EXPECT_EQ(trace->slice_of_line[touch.line()], query.slice);
    EXPECT_EQ(query.dependent, 1);
    EXPECT_FALSE(touch.writes() || touch.streams() || touch.locks());
    in_order = in_order && touch.line() % 100 == i / 3 % 100;
    ++times[touch.line()];
  }
  EXPECT_EQ(times.size(), 300U);
  for (const auto& [line, n] : times) EXPECT_EQ(n, 2) << line;
  EXPECT_FALSE(in_order);
}

TEST(MicroTrace, SlicesHaveHugePagesOfTheirOwn) {
  const auto trace = pointer_chase(2, 512 * 64 + 1, 2);
  EXPECT_EQ(trace->address_page_of_line[63], 0U);
  EXPECT_EQ(trace->address_page_of_line[64], 1U);
  EXPECT_EQ(trace->address_page_of_line[512 * 64], 512U);
  EXPECT_EQ(trace->address_page_of_line[512 * 64 + 1], 1024U);
  EXPECT_EQ(trace->bytes_of_slice[1], 64U * (512 * 64 + 1));
}

TEST(MicroTrace, AStreamTakesTheLinesInTurnAndWritesItsShare) {
  const auto trace = streaming(2, 40, 10, 16, 0.25);
  for (std::size_t i = 0; i < trace->size(); ++i) {
    ASSERT_EQ(trace->touches_of(i).size(), 10U);
    EXPECT_EQ(trace->queries[i].streaming, 10);
    std::size_t writes = 0;
    for (std::size_t n = 0; n < 10; ++n) {
      const Touch touch = trace->touches_of(i)[n];
      EXPECT_EQ(touch.line(), i % 2 * 40 + (i / 2 * 10 + n) % 40);
      EXPECT_TRUE(touch.streams());
      writes += touch.writes() ? 1 : 0;
    }
    EXPECT_EQ(trace->queries[i].writes, writes);
    EXPECT_NEAR(static_cast<double>(writes), 2.5, 1.0);
  }
}

TEST(MicroTrace, TwoSlicesWriteTheSameLinesInTurn) {
  const auto trace = modified_lines(7, 40);
  for (std::size_t i = 0; i < trace->size(); ++i) {
    EXPECT_EQ(trace->queries[i].slice, i % 2);
    EXPECT_EQ(trace->touches_of(i)[0].line(), i / 2 % 7);
    EXPECT_TRUE(trace->touches_of(i)[0].writes());
  }
}

TEST(MicroTrace, AChaseOfPagesTouchesNoLine) {
  const auto trace = page_chase(2, 5, 20);
  EXPECT_EQ(trace->lines(), 0U);
  EXPECT_EQ(trace->pages(), 10U);
  std::set<std::uint32_t> pages;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    ASSERT_EQ(trace->pages_of(i).size(), 1U);
    EXPECT_TRUE(trace->touches_of(i).empty());
    EXPECT_EQ(trace->slice_of_page[trace->pages_of(i)[0]], i % 2);
    pages.insert(trace->pages_of(i)[0]);
  }
  EXPECT_EQ(pages.size(), 10U);
}

TEST(MicroTrace, RefusesWhatNoTraceCanHold) {
  EXPECT_THROW(pointer_chase(0, 1, 1), std::invalid_argument);
  EXPECT_THROW(pointer_chase(1, 0, 1), std::invalid_argument);
  EXPECT_THROW(pointer_chase(1, 1, 0), std::invalid_argument);
  EXPECT_THROW(pointer_chase(65'537, 1, 1), std::invalid_argument);
  EXPECT_THROW(pointer_chase(2, Touch::max_lines, 1), std::invalid_argument);
  EXPECT_THROW(pointer_chase(1, 1, 1ULL << 40), std::invalid_argument);
  EXPECT_THROW(streaming(1, 1, 0, 1), std::invalid_argument);
  EXPECT_THROW(streaming(1, 1, 65'536, 1), std::invalid_argument);
  EXPECT_THROW(streaming(1, 1, 1, 1, 1.5), std::invalid_argument);
  EXPECT_THROW(streaming(1, 1, 60'000, 4'000'000'000), std::invalid_argument);
  EXPECT_THROW(modified_lines(0, 1), std::invalid_argument);
  EXPECT_THROW(page_chase(1, 0, 1), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::recording
