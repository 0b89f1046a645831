// What the parser of Valgrind's lists makes of good lines, of damaged ones, and of any pieces.
#include "recording/access_trace.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "workload/keyspace.hpp"
#include "workload/random.hpp"

namespace pmoss::recording {
namespace {

constexpr std::uint64_t mark = 0x1000, data = 0x1000000;
constexpr std::array<OperationCost, 4> costs = {{{100, 0}, {100, 0}, {100, 0}, {100, 0}}};

PlannedQueries planned(std::uint64_t queries = 20) {
  WorkloadSpec spec;
  spec.records = 1000;
  spec.lookup = 1.0;
  spec.insert = spec.scan = spec.update = 0.0;
  return plan_queries(spec, 4, {queries, 1, 1, 0});
}

AccessTrace fresh(std::uint64_t queries = 20) {
  AccessTrace trace(planned(queries));
  trace.take_facts("mark 1000\ndata 1000000 2000000\nrecord 32\n");
  return trace;
}

std::string hex(std::uint64_t value) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%llx", static_cast<unsigned long long>(value));
  return digits.data();
}

std::string drd(const char* what, std::uint64_t address, int thread = 1, std::uint64_t bytes = 8) {
  return std::string("==7== ") + what + " 0x" + hex(address) + " size " + std::to_string(bytes) +
         " (thread " + std::to_string(thread) +
         " / vc [ 1: 1 ])\n==7==    at 0x4010: f (m.cpp:1)\n";
}

/// Each query reads a page of its own, twice.
std::string of_drd(std::uint64_t queries = 20) {
  std::string text;
  for (std::uint64_t query = 0; query < queries; ++query) {
    text += drd("store", mark) + drd("load ", data + 4096 * query);
    text += drd("load ", data + 4096 * query + 8) + drd("store", mark);
  }
  return text;
}

std::string of_lackey(std::uint64_t queries = 20) {
  std::string text;
  for (std::uint64_t query = 0; query < queries; ++query) {
    const std::string at = hex(data + 4096 * query);
    text += "I  04001000,3\n S 00001000,8\nI  04001003,4\n L " + at + ",8\n L " + at + ",8\n";
    text += "I  04001007,3\n S 00001000,8\n";
  }
  return text;
}

TEST(AccessTrace, KeysAreLoadedSliceAfterSlice) {
  const PlannedQueries plan = planned();
  ASSERT_EQ(plan.keys.size(), 1000u);
  for (std::size_t i = 1; i < plan.keys.size(); ++i) {
    EXPECT_LE(slice_of_key(plan.keys[i - 1], 4), slice_of_key(plan.keys[i], 4));
  }
}

TEST(AccessTrace, EachToolsListGivesTheLinesOfEachQuery) {
  for (const std::string& text : {of_drd(), of_lackey()}) {
    AccessTrace accesses = fresh();
    EXPECT_EQ(accesses.feed(text), 20u);
    const Trace trace = accesses.finish(costs);
    ASSERT_EQ(trace.queries.size(), 21u);
    EXPECT_EQ(trace.touches.size(), 20u);  // a line once in a query
    EXPECT_EQ(trace.page_touches.size(), 20u);
    EXPECT_EQ(trace.slice_of_page.size(), 20u);
  }
}

TEST(AccessTrace, PiecesMayEndAnywhere) {
  const std::string text = of_drd() + of_lackey();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{63}, text.size()}) {
    AccessTrace accesses = fresh(40);
    std::size_t done = 0;
    for (std::size_t i = 0; i < text.size(); i += piece) {
      done = accesses.feed(std::string_view(text).substr(i, piece));
    }
    EXPECT_EQ(done, 40u);
    EXPECT_EQ(accesses.finish(costs).touches.size(), 40u);
  }
}

TEST(AccessTrace, WhatIsNotTheQueriesDoesNotCount) {
  AccessTrace accesses = fresh(2);
  // Before the first query and after the last, between them, of another thread, outside of the
  // data.
  accesses.feed(drd("load ", data));
  accesses.feed(drd("store", mark) + drd("load ", data + 64) + drd("load ", data + 128, 2));
  accesses.feed(drd("load ", 0x900000) + drd("store", mark) + drd("load ", data + 192));
  accesses.feed(drd("store", mark) + drd("load ", data + 256) + drd("store", mark));
  EXPECT_EQ(accesses.feed(drd("store", mark) + drd("load ", data + 320) + drd("store", mark)), 2u);
  EXPECT_EQ(accesses.finish(costs).touches.size(), 2u);
}

TEST(AccessTrace, AnAccessIntoTheNextLineIsTwoTouches) {
  AccessTrace accesses = fresh(1);
  accesses.feed(drd("store", mark) + drd("load ", data + 60, 1, 8) + drd("store", mark));
  const Trace trace = accesses.finish(costs);
  // Nearly every query reads them: one query is all.
  EXPECT_EQ(trace.touches.size(), 0u);
  EXPECT_EQ(accesses.left_out(), 2.0);
}

TEST(AccessTrace, AChangeIsReadAndWritten) {
  AccessTrace accesses = fresh(2);
  for (const std::uint64_t at : {data, data + 4096}) {
    accesses.feed("I  1,4\n S 1000,8\n M " + hex(at) + ",8\n S 1000,8\n");
  }
  const Trace trace = accesses.finish(costs);
  EXPECT_EQ(trace.queries[0].writes, 1u);
  EXPECT_EQ(trace.queries[0].dependent, 1u);  // for what it reads alone
}

TEST(AccessTrace, AQueryThatHasNotEndedIsLeftOut) {
  AccessTrace accesses = fresh(3);
  accesses.feed(of_drd(2));
  EXPECT_EQ(accesses.feed(drd("store", mark) + drd("load ", data + (1 << 20))), 2u);
  EXPECT_EQ(accesses.finish(costs).touches.size(), 2u);
}

TEST(AccessTrace, DamagedLinesAreLeftOut) {
  const std::vector<std::string> damaged = {
      "",
      "=",
      "==",
      "==7==",
      "==7== ",
      "==7== load\n",
      "==7== load  0x\n",
      "==7== load  0x10 size\n",
      "==7== store 0xzz size 8 (thread 1 / )\n==7==    at 0x\n",
      "I\n",
      "I  \n",
      " L\n",
      " L \n",
      " L ,\n",
      " L 1000000\n",
      " S 1000000,\n",
      " L 1000000,99999999999999999999999\n",
      " L fffffffffffffffffffffffff,8\n",
      "==7==    at 0x10: f\n",
      std::string(100'000, 'x') + "\n",
      std::string("\0\0\0\0\n", 5),
      "\n\n\n"};
  AccessTrace accesses = fresh();
  for (const std::string& line : damaged) accesses.feed(line + "\n");
  EXPECT_EQ(accesses.feed(of_lackey()), 20u);
  EXPECT_EQ(accesses.finish(costs).touches.size(), 20u);
}

TEST(AccessTrace, AnyBytesAreReadToTheirEnd) {
  Random random(3);
  const std::string text = of_drd() + of_lackey();
  for (int turn = 0; turn < 200; ++turn) {
    std::string other = text;
    for (int i = 0; i < 30; ++i) {
      other[random.below(other.size())] = static_cast<char>(random.below(256));
    }
    AccessTrace accesses = fresh(40);
    const std::size_t done = accesses.feed(other);
    EXPECT_LE(done, 40u);
    if (done > 0) {
      EXPECT_LE(accesses.finish(costs).queries.size(), 41u);
    }
  }
}

TEST(AccessTrace, DamagedFactsAreRefused) {
  for (const char* const facts : {"", "record 32\n", "mark\n", "mark zz\n", "mark 1000\ndata 5\n",
                                  "mark 1000\nrecord x\n", "mark 1000\ncode 1 2\n"}) {
    AccessTrace accesses(planned());
    EXPECT_THROW(accesses.take_facts(facts), std::invalid_argument) << facts;
  }
  AccessTrace accesses = fresh();
  EXPECT_THROW(accesses.finish(costs), std::invalid_argument);  // no query has ended
}

}  // namespace
}  // namespace pmoss::recording
