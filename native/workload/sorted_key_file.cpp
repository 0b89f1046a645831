#include "workload/sorted_key_file.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>

#include "workload/file_words.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw std::invalid_argument("key file '" + path + "': " + reason);
}

}  // namespace

SortedKeyFile::SortedKeyFile(const std::string& path) {
  static_assert(std::endian::native == std::endian::little);
  std::uint64_t words = 0;
  std::shared_ptr<const std::uint64_t[]> file;
  try {
    file = words_of_file(path, words);
  } catch (const std::invalid_argument& error) {
    refuse(path, error.what());
  }
  const std::uint64_t count = file[0];
  if (count != words - 1) {
    refuse(path,
           "announces " + std::to_string(count) + " keys but holds " + std::to_string(words - 1));
  }
  std::uint64_t repeats = 0;
  for (std::uint64_t i = 2; i <= count; ++i) {
    if (file[i] < file[i - 1]) {
      refuse(path, "key " + std::to_string(i - 1) + " is " + std::to_string(file[i]) +
                       ", below the one before it: keys must ascend");
    }
    repeats += file[i] == file[i - 1] ? 1 : 0;
  }
  size_ = count - repeats;
  if (count < 2 || size_ < 2) refuse(path, "must hold at least 2 different keys");
  if (repeats == 0) {
    keys_ = std::shared_ptr<const std::uint64_t[]>(file, file.get() + 1);
  } else {
    std::shared_ptr<std::uint64_t[]> unique = std::make_unique<std::uint64_t[]>(size_);
    std::unique_copy(file.get() + 1, file.get() + 1 + count, unique.get());
    keys_ = std::move(unique);
  }
  smallest_ = keys_[0];
  shift_ = std::countl_zero(keys_[size_ - 1] - smallest_);
  // Near the golden section, so that neighbours in number lie far apart in order.
  stride_ = static_cast<std::uint64_t>(static_cast<double>(size_) * 0.6180339887498949) | 1;
  while (std::gcd(stride_, size_) != 1) ++stride_;
}

std::uint64_t SortedKeyFile::index_of(std::uint64_t record, std::uint64_t seed) const noexcept {
  __extension__ using wide = unsigned __int128;
  const wide start = mix64(seed) % size_;
  return static_cast<std::uint64_t>((start + static_cast<wide>(record % size_) * stride_) % size_);
}

std::uint64_t SortedKeyFile::position(std::uint64_t record, std::uint64_t seed) const noexcept {
  __extension__ using wide = unsigned __int128;
  return static_cast<std::uint64_t>(
      ((static_cast<wide>(index_of(record, seed)) << 64) + size_ - 1) / size_);
}

std::uint64_t SortedKeyFile::key_at(std::uint64_t position) const noexcept {
  return stretched(scale64(position, size_));
}

std::uint64_t SortedKeyFile::key(std::uint64_t record, std::uint64_t seed) const noexcept {
  return stretched(index_of(record, seed)) + record / size_;
}

double SortedKeyFile::share_below(std::uint64_t key) const noexcept {
  const std::uint64_t* const first = keys_.get();
  const std::uint64_t* const first_above = std::partition_point(
      first, first + size_,
      [&](const std::uint64_t& k) { return ((k - smallest_) << shift_) < key; });
  return static_cast<double>(first_above - first) / static_cast<double>(size_);
}

}  // namespace pmoss
