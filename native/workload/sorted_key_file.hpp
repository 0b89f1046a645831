// Keys from a file in the format of the SOSD benchmark: a count, then that many ascending keys, all
// unsigned 64-bit integers in little-endian order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace pmoss {

/// The keys of such a file, mapped into memory and stretched over the whole 64-bit range: the
/// smallest key becomes 0, and distances grow by a power of two.
class SortedKeyFile {
 public:
  /// Throws std::invalid_argument, naming the file and what is wrong, unless it holds at least two
  /// keys and they ascend. Equal neighbours are counted once.
  explicit SortedKeyFile(const std::string& path);

  /// Number of distinct keys.
  std::uint64_t size() const noexcept { return size_; }
  /// See KeySpace.
  std::uint64_t position(std::uint64_t record, std::uint64_t seed) const noexcept;
  std::uint64_t key_at(std::uint64_t position) const noexcept;
  std::uint64_t key(std::uint64_t record, std::uint64_t seed) const noexcept;
  double share_below(std::uint64_t key) const noexcept;

 private:
  /// Index of a record's key: a bijection of 0 .. size() - 1 for each seed.
  std::uint64_t index_of(std::uint64_t record, std::uint64_t seed) const noexcept;
  std::uint64_t stretched(std::uint64_t index) const noexcept {
    return (keys_[index] - smallest_) << shift_;
  }

  std::shared_ptr<const std::uint64_t[]> keys_;  // of the mapping, or of a copy without repeats
  std::uint64_t size_ = 0;
  std::uint64_t smallest_ = 0;
  std::uint64_t stride_ = 1;  // prime to size_
  int shift_ = 0;
};

}  // namespace pmoss
