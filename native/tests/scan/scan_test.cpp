#include "scan/scan.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "scan/table.hpp"
#include "workload/random.hpp"

namespace pmoss::scan {
namespace {

std::vector<std::uint32_t> reference(const std::vector<std::int32_t>& values, Range range) {
  std::vector<std::uint32_t> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= range.low && values[i] <= range.high) {
      result.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return result;
}

/// The values at an address that is `offset` bytes off every alignment.
struct Unaligned {
  Unaligned(const std::vector<std::int32_t>& values, std::size_t offset)
      : memory(values.size() * sizeof(std::int32_t) + 64 + offset), at(memory.data() + offset) {
    if (!values.empty()) std::memcpy(at, values.data(), values.size() * sizeof(std::int32_t));
  }
  std::vector<std::byte> memory;
  std::byte* at;
};

std::vector<Isa> instruction_sets() {
  std::vector<Isa> result;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (isa_supported(isa)) result.push_back(isa);
  }
  return result;
}

/// An engine that fails where a test wants it to.
class FailingEngine final : public CopyEngine {
 public:
  FailingEngine(int good_copies, bool at_start) : left_(good_copies), at_start_(at_start) {}
  std::string_view name() const noexcept override { return "failing"; }
  void start(std::byte* target, const std::byte* source, std::size_t bytes) override {
    if (left_-- > 0) {
      std::memcpy(target, source, bytes);
      return;
    }
    if (at_start_) throw CopyError("refused");
    // Half of the block is copied, and rubbish after it.
    std::memcpy(target, source, bytes / 2);
    std::memset(target + bytes / 2, 0x5a, bytes - bytes / 2);
    broken_ = true;
  }
  void wait() override {
    if (broken_) throw CopyError("broke off");
  }
  void stop() noexcept override { ++stops; }

  int stops = 0;

 private:
  int left_;
  bool at_start_;
  bool broken_ = false;
};

TEST(Scan, EveryPathAndInstructionSetEqualsTheScalarReference) {
  Random random(1);
  const auto engine = make_thread_engine();
  const std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  const std::int32_t highest = std::numeric_limits<std::int32_t>::max();
  for (int round = 0; round < 60; ++round) {
    const std::size_t rows = random.below(round % 3 == 0 ? 40 : 20'000);
    // Few different values make many matches; the whole range makes the ends meet.
    const std::uint64_t span = round % 2 == 0 ? 16 : std::uint64_t{1} << 32;
    std::vector<std::int32_t> values(rows);
    for (auto& value : values) {
      value = static_cast<std::int32_t>(static_cast<std::uint32_t>(random.below(span)));
    }
    const auto low = static_cast<std::int32_t>(random.next());
    const auto high = static_cast<std::int32_t>(random.next());
    const Range ranges[] = {{3, 3},     {0, 7}, {5, 4}, {lowest, highest}, {highest, highest},
                            {low, high}};
    const Unaligned column(values, random.below(9));
    for (const Range range : ranges) {
      const auto expected = reference(values, range);
      const std::size_t room = random.below(2) == 0 ? rows : random.below(rows + 1);
      for (const Isa isa : instruction_sets()) {
        BlockBuffers buffers(4096 * (1 + random.below(3)));
        for (const bool copies : {false, true}) {
          std::vector<std::uint32_t> positions(room);
          const Outcome outcome =
              copies ? scan_by_copies({column.at, rows}, range, positions, *engine, buffers, isa)
                     : scan_by_loads({column.at, rows}, range, positions, isa);
          ASSERT_EQ(outcome.matches, expected.size());
          ASSERT_EQ(outcome.written, std::min(room, expected.size()));
          for (std::size_t i = 0; i < outcome.written; ++i) ASSERT_EQ(positions[i], expected[i]);
          EXPECT_EQ(outcome.offloaded, copies && rows > 0);
        }
      }
    }
  }
}

TEST(Scan, AnEngineThatFailsMidCopyStillGivesTheRightResultAndTheReason) {
  Random random(2);
  std::vector<std::int32_t> values(10'000);
  for (auto& value : values) value = static_cast<std::int32_t>(random.below(100));
  const auto expected = reference(values, {0, 9});
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  for (const bool at_start : {false, true}) {
    for (int good = 0; good < 12; ++good) {
      FailingEngine engine(good, at_start);
      BlockBuffers buffers(4096);
      std::vector<std::uint32_t> positions(values.size());
      const Outcome outcome =
          scan_by_copies({bytes, values.size()}, {0, 9}, positions, engine, buffers);
      positions.resize(outcome.written);
      EXPECT_EQ(positions, expected);
      const bool failed = good < 10;  // 10,000 values are ten blocks
      EXPECT_EQ(outcome.offloaded, !failed);
      EXPECT_EQ(outcome.reason.find("failing engine failed at row") != std::string::npos, failed);
      EXPECT_EQ(engine.stops, failed ? 1 : 0);
    }
  }
}

TEST(Scan, AnEmptyTableHasNoResultsOnAnyPath) {
  const auto engine = make_thread_engine();
  BlockBuffers buffers(4096);
  EXPECT_EQ(scan_by_loads({}, {0, 9}, {}).matches, 0U);
  const Outcome outcome = scan_by_copies({}, {0, 9}, {}, *engine, buffers);
  EXPECT_EQ(outcome.matches, 0U);
  EXPECT_FALSE(outcome.offloaded);
  EXPECT_NE(outcome.reason.find("empty"), std::string::npos);
}

TEST(Scan, WhatIsImpossibleIsRefused) {
  EXPECT_THROW(scan_by_loads({nullptr, 1}, {0, 9}, {}), std::invalid_argument);
  const std::byte byte{};
  EXPECT_THROW(scan_by_loads({&byte, (std::size_t{1} << 32) + 1}, {0, 9}, {}),
               std::invalid_argument);
  EXPECT_THROW(BlockBuffers(0), std::invalid_argument);
  EXPECT_THROW(Table::range_of(1.5), std::invalid_argument);
  EXPECT_THROW(make_engine("gru"), std::invalid_argument);
}

TEST(ScanTable, AShareOfTheValuesLiesInItsRange) {
  const Table table(200'000, 7);
  std::vector<std::uint32_t> positions(200'000);
  for (const double share : {0.0, 0.01, 0.5, 1.0}) {
    const Outcome outcome = scan_by_loads(table.column(), Table::range_of(share), positions);
    EXPECT_NEAR(static_cast<double>(outcome.matches) / 2e5, share, 0.005) << share;
  }
  table.flush();
}

TEST(ScanTable, ARangeWithoutMatchesIsScannedAllTheSame) {
  const Range none = Table::range_of(0.0);
  ASSERT_LE(none.low, none.high);
  // Rows of the table hold no such value; a column that does shows that its end is reached.
  std::vector<std::int32_t> column(10'000, none.low);
  std::vector<std::uint32_t> positions(column.size());
  const Column all{reinterpret_cast<const std::byte*>(column.data()), column.size()};
  EXPECT_EQ(scan_by_loads(all, none, positions).matches, column.size());
}

}  // namespace
}  // namespace pmoss::scan
