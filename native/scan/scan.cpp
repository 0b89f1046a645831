#include "scan/scan.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

namespace pmoss::scan {
namespace {

constexpr std::size_t value_bytes = sizeof(std::int32_t);
constexpr std::size_t page_bytes = 4096;
/// Values between two looks at the room left. Their positions always fit the spill buffer.
constexpr std::size_t stretch = 4096;

void check(const Column& column) {
  if (column.rows > std::size_t{1} << 32) {
    throw std::invalid_argument("rows is " + std::to_string(column.rows) +
                                "; positions have 32 bits: at most 2^32");
  }
  if (column.rows > 0 && column.values == nullptr) {
    throw std::invalid_argument("a column of " + std::to_string(column.rows) + " rows is null");
  }
}

/// Collects positions in a caller's buffer, however small that is.
class Collector {
 public:
  Collector(Range range, std::span<std::uint32_t> positions, Isa isa)
      : kernel_(kernel_for(isa)), range_(range), positions_(positions) {}

  void take(const std::byte* values, std::size_t rows, std::size_t first) {
    if (range_.low > range_.high) return;
    for (std::size_t done = 0; done < rows;) {
      const std::size_t room = positions_.size() - outcome_.written;
      const std::size_t left = rows - done;
      const bool roomy = room >= stretch + kernel_slack;
      // What surely fits is written in place; the rest goes through the spill buffer.
      const std::size_t n = std::min(left, roomy ? room - kernel_slack : stretch);
      const auto position = static_cast<std::uint32_t>(first + done);
      const std::byte* const at = values + done * value_bytes;
      if (roomy) {
        const std::size_t matches =
            kernel_(at, n, range_, position, positions_.data() + outcome_.written);
        outcome_.matches += matches;
        outcome_.written += matches;
      } else {
        const std::size_t matches = kernel_(at, n, range_, position, spill_.data());
        const std::size_t kept = std::min(matches, room);
        std::copy_n(spill_.data(), kept, positions_.data() + outcome_.written);
        outcome_.matches += matches;
        outcome_.written += kept;
      }
      done += n;
    }
  }

  Outcome finish(bool offloaded, std::string reason) {
    outcome_.offloaded = offloaded;
    outcome_.reason = std::move(reason);
    return std::move(outcome_);
  }

 private:
  Kernel kernel_;
  Range range_;
  std::span<std::uint32_t> positions_;
  Outcome outcome_;
  std::array<std::uint32_t, stretch + kernel_slack> spill_;
};

}  // namespace

BlockBuffers::BlockBuffers(std::size_t bytes)
    : bytes_((bytes + page_bytes - 1) / page_bytes * page_bytes) {
  if (bytes == 0 || bytes > std::size_t{1} << 32) {
    throw std::invalid_argument("block bytes is " + std::to_string(bytes) +
                                "; must be from 1 to 2^32");
  }
  memory_.resize(2 * bytes_);
}

Outcome scan_by_loads(Column column, Range range, std::span<std::uint32_t> positions, Isa isa) {
  check(column);
  Collector collector(range, positions, isa);
  collector.take(column.values, column.rows, 0);
  return collector.finish(false, "");
}

Outcome scan_by_copies(Column column, Range range, std::span<std::uint32_t> positions,
                       CopyEngine& engine, BlockBuffers& buffers, Isa isa) {
  check(column);
  Collector collector(range, positions, isa);
  if (column.rows == 0) return collector.finish(false, "the table is empty: nothing to copy");
  const std::size_t block = buffers.bytes() / value_bytes;
  const auto rows_of = [&](std::size_t first) { return std::min(block, column.rows - first); };
  const auto start = [&](std::size_t first, std::size_t buffer) {
    engine.start(buffers[buffer], column.values + first * value_bytes,
                 rows_of(first) * value_bytes);
  };
  std::size_t first = 0;
  try {
    start(0, 0);
    for (std::size_t buffer = 0; first < column.rows; buffer = 1 - buffer) {
      engine.wait();
      const std::size_t rows = rows_of(first);
      const std::size_t next = first + rows;
      std::string failure;
      if (next < column.rows) {
        try {
          start(next, 1 - buffer);
        } catch (const CopyError& error) {
          failure = error.what();
        }
      }
      // This block was copied well, whatever became of the next one.
      collector.take(buffers[buffer], rows, first);
      first = next;
      if (!failure.empty()) throw CopyError(failure);
    }
    return collector.finish(true, "");
  } catch (const CopyError& error) {
    engine.stop();
    const std::string reason = std::string(engine.name()) + " engine failed at row " +
                               std::to_string(first) + ": " + error.what() + "; loads went on";
    collector.take(column.values + first * value_bytes, column.rows - first, first);
    return collector.finish(false, reason);
  }
}

}  // namespace pmoss::scan
