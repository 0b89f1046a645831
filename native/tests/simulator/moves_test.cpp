// Slices that move while the simulated server runs, against closed forms.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "recording/micro_trace.hpp"
#include "simulator/server.hpp"
#include "tests/machine/small_machine.hpp"

namespace pmoss::simulator {
namespace {

constexpr double epoch_s = 25e-6;
constexpr double copy_gb_per_s = 64.0 * 4.0 / 150.0;  // 4 lines in flight, 150 ns from afar

// Memories so wide that load does not count: 80 ns beside, 150 ns from afar.
Machine wide_machine() {
  Machine m = small_machine();
  m.l2_ns = 5.0;
  m.l2_lines = 256;
  m.llc_lines = 4096;
  m.dram_curve = m.link_curve = {0.0, 0.0, 1.0};
  m.dram_gb_per_s.assign(4, 1e6);
  m.link_gb_per_s.assign(4, 1e6);
  m.modified_ns.assign(16, 60.0);
  return m;
}

Migration moved(const std::vector<Move>& moves, std::uint32_t lines = 40'000,
                double most_gb_per_s = 0.0, Load load = {}) {
  load.outstanding_per_worker = 1;  // few queries wait at the old core
  Server server(wide_machine(), load);
  server.set_instance(recording::pointer_chase(1, lines, 60'000));
  const std::vector<std::int32_t> cores{0}, nodes{0};
  return server.migrate({cores, nodes}, moves, most_gb_per_s, 1);
}

TEST(Moves, DataArriveAfterTheirBytesOverTheRateOfTheCopy) {
  const Migration migration = moved({{0, 6, 1e6}});
  ASSERT_EQ(migration.pieces.size(), 2U);
  EXPECT_NEAR(migration.pieces[0].seconds, 1e6 / copy_gb_per_s * 1e-9, epoch_s);
  EXPECT_NEAR(migration.pieces[0].throughput, 1e3 / 150.0, 0.1) << "served from afar";
  EXPECT_NEAR(migration.pieces[1].throughput, 1e3 / 80.0, 0.1) << "served beside";
  EXPECT_NEAR(migration.copied_bytes, 1e6, 1e-3);
  EXPECT_EQ(migration.pending, 0U);
}

TEST(Moves, ALimitSlowsTheCopy) {
  const Migration migration = moved({{0, 6, 1e6}}, 40'000, 0.5);
  EXPECT_NEAR(migration.pieces[0].seconds, 2e-3, epoch_s);
}

TEST(Moves, WithinANodeNothingIsCopied) {
  const Migration migration = moved({{0, 1, 1e6}});
  ASSERT_EQ(migration.pieces.size(), 1U);
  EXPECT_EQ(migration.copied_bytes, 0.0);
  EXPECT_NEAR(migration.pieces[0].throughput, 1e3 / 80.0, 0.1);
}

TEST(Moves, ACopyWithoutEndIsTrafficOfBothMemories) {
  const Migration migration = moved({{0, 6, std::numeric_limits<double>::infinity()}});
  ASSERT_EQ(migration.pieces.size(), 1U);
  EXPECT_EQ(migration.pending, 1U);
  EXPECT_NEAR(migration.copied_bytes / migration.pieces[0].seconds * 1e-9, copy_gb_per_s, 0.02);
  const double queries = 64.0 / 150.0;  // GB/s, a line each
  EXPECT_NEAR(migration.snapshot.read_gb_per_s[0], copy_gb_per_s + queries, 0.05);
  EXPECT_NEAR(migration.snapshot.write_gb_per_s[3], copy_gb_per_s, 0.05);
}

TEST(Moves, LinesAreColdAfterTheMoveAndAfterTheCopy) {
  const std::uint32_t lines = 128;  // which the L2 holds
  const Migration migration = moved({{0, 6, 1e5}}, lines);
  double seconds = 0;
  for (const auto& piece : migration.pieces) seconds += piece.seconds;
  EXPECT_NEAR(migration.snapshot.slices[0].llc_misses * seconds * 1e6, 2.0 * lines, 1.0);
}

TEST(Moves, WithoutAnyTheRunIsTheSame) {
  Server server(wide_machine(), {});
  server.set_instance(recording::pointer_chase(2, 5000, 20'000));
  const std::vector<std::int32_t> cores{0, 2}, nodes{0, 3};
  const Snapshot run = server.run({cores, nodes}, 1);
  EXPECT_EQ(server.migrate({cores, nodes}, {}, 0.0, 1).snapshot.throughput, run.throughput);
  const std::vector<Move> moves{{0, 6, 1e5}};
  server.migrate({cores, nodes}, moves, 0.0, 1);
  EXPECT_EQ(server.run({cores, nodes}, 1).throughput, run.throughput) << "nothing stays behind";
}

TEST(Moves, WhatDoesNotExistIsRefused) {
  const double no_number = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::vector<Move>> wrong{{{1, 6, 1.0}},       {{-1, 6, 1.0}},
                                             {{0, 99, 1.0}},      {{0, 6, -1.0}},
                                             {{0, 6, no_number}}, {{0, 6, 1.0}, {0, 5, 1.0}}};
  for (const auto& moves : wrong) EXPECT_THROW(moved(moves), std::invalid_argument);
  Load saturated;
  saturated.kind = Load::Kind::saturated;
  EXPECT_THROW(moved({{0, 6, 1.0}}, 100, 0.0, saturated), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::simulator
