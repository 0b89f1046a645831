// Which key a record has, and which slice serves a key. Every backend uses these functions, so the
// hot slices of a workload instance are the same on the model, the simulator and the machine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "workload/random.hpp"

namespace pmoss {

class PointSet;
class SortedKeyFile;

/// How the keys of an index lie in the 64-bit range.
struct KeySpace {
  enum class Kind : std::uint8_t {
    scattered,  ///< uniformly: hashed record numbers
    clustered,  ///< in clusters within clusters, as map data do: synthetic, the same for all seeds
    file,       ///< as the keys of a file, stretched over the whole range
    points,     ///< of points alone: those of a user, see point_of_record()
  };
  Kind kind = Kind::scattered;
  std::shared_ptr<const SortedKeyFile> keys = nullptr;  ///< of kind file
  /// So many records, from number 0 on, lie in the order of their numbers, from a place that the
  /// seed chooses on and round the end: the hot ones of Zipf's are neighbours.
  std::uint64_t in_order = 0;
  std::shared_ptr<const PointSet> points = nullptr;  ///< of kind points

  /// Place of record number `record` among all records in the order of their keys, in units of
  /// 2^-64: a bijection for each seed, so that hot records lie scattered (P-MOSS section 7.2); with
  /// `in_order`, one for the records in order and one for the others.
  std::uint64_t position(std::uint64_t record, std::uint64_t seed) const noexcept;

  /// The key at a position; ascending in it. Records have distinct keys.
  std::uint64_t key_at(std::uint64_t position) const noexcept;

  /// How many of the records in order lie below record number `record`, one of them.
  std::uint64_t place_in_order(std::uint64_t record, std::uint64_t seed) const noexcept;

  /// The key of a record. Of a file, the records behind its last key lie just above those in it,
  /// and may repeat a key; so may those behind the last in order.
  std::uint64_t key(std::uint64_t record, std::uint64_t seed) const noexcept;

  /// Share of the records whose keys lie below `key`, from 0 to 1.
  double share_below(std::uint64_t key) const noexcept;
};

/// The key of record number `record` in the scattered key space of the instance `seed`.
constexpr std::uint64_t key_of_record(std::uint64_t record, std::uint64_t seed) noexcept {
  return mix64(record + mix64(seed));
}

/// The slice that serves `key`: `slices` key ranges of equal width (P-MOSS, section 3).
constexpr std::uint32_t slice_of_key(std::uint64_t key, std::uint32_t slices) noexcept {
  return static_cast<std::uint32_t>(scale64(key, slices));
}

/// The first key of a slice: the smallest key that slice_of_key() maps to it.
constexpr std::uint64_t first_key_of_slice(std::uint32_t slice, std::uint32_t slices) noexcept {
  __extension__ using wide = unsigned __int128;
  return static_cast<std::uint64_t>((((static_cast<wide>(slice) << 64) + slices - 1) / slices));
}

/// Share of the records that each slice holds, in expectation; 0 where a slice stays empty.
std::vector<double> record_shares(const KeySpace& space, std::uint32_t slices);

}  // namespace pmoss
