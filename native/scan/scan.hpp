// Scans of a column of 32-bit integers: the positions of the values inside a range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scan/copy_engine.hpp"
#include "scan/kernels.hpp"

namespace pmoss::scan {

/// A column; `values` need not be aligned.
struct Column {
  const std::byte* values = nullptr;
  std::size_t rows = 0;
};

/// What became of a scan.
struct Outcome {
  std::size_t matches = 0;  ///< positions that there are
  std::size_t written = 0;  ///< positions that were written: fewer where the buffer was too small
  bool offloaded = false;   ///< whether an engine copied all of the column
  std::string reason;       ///< why it was not offloaded to its end, if that was asked for
};

/// The two local buffers of an offloaded scan, kept from scan to scan.
class BlockBuffers {
 public:
  /// `bytes` is rounded up to whole pages. Throws std::invalid_argument unless positive.
  explicit BlockBuffers(std::size_t bytes);

  std::size_t bytes() const noexcept { return bytes_; }
  std::byte* operator[](std::size_t i) noexcept { return memory_.data() + i * bytes_; }

 private:
  std::size_t bytes_;
  std::vector<std::byte> memory_;
};

/// Scans with plain loads. Positions are written in ascending order as far as there is room; the
/// matches are counted to the end in any case. Throws std::invalid_argument for more than 2^32
/// rows.
Outcome scan_by_loads(Column column, Range range, std::span<std::uint32_t> positions,
                      Isa isa = best_isa());

/// Scans local copies of the column's blocks: while one buffer is scanned, the engine fills the
/// other. Where the engine fails, loads go on from the block that it failed at: the outcome is
/// right in any case, and says why.
Outcome scan_by_copies(Column column, Range range, std::span<std::uint32_t> positions,
                       CopyEngine& engine, BlockBuffers& buffers, Isa isa = best_isa());

}  // namespace pmoss::scan
