// A column in the memory of a chosen node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "scan/scan.hpp"

namespace pmoss::scan {

/// Rows of uniformly random values from 0 to 2^31 - 1, in memory of its own.
class Table {
 public:
  /// `node` is the id of a memory node, or -1 for that of the calling thread. Throws
  /// std::bad_alloc, std::invalid_argument, or std::system_error where the kernel does not bind
  /// memory to the node.
  Table(std::size_t rows, std::uint64_t seed, int node = -1);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table();

  Column column() const noexcept { return {memory_, rows_}; }
  /// The range that `share` of the values lie in, on average. It is never empty: a scan for no
  /// match reads all of the column, too.
  static Range range_of(double share);
  /// Takes the table out of the caches of this processor.
  void flush() const noexcept;

 private:
  std::size_t rows_, bytes_;
  std::byte* memory_;
};

}  // namespace pmoss::scan
