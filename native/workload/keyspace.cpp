#include "workload/keyspace.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "workload/sorted_key_file.hpp"

namespace pmoss {
namespace {

constexpr int position_bits = 40;
constexpr std::uint64_t positions = std::uint64_t{1} << position_bits;

/// A bijection of the 40-bit integers that scatters its input.
constexpr std::uint64_t mix40(std::uint64_t x, std::uint64_t salt) noexcept {
  constexpr std::uint64_t mask = positions - 1;
  x = (x + salt) & mask;
  x = ((x ^ (x >> 21)) * 0x9e3779b97f4a7c15ULL) & mask;
  x = ((x ^ (x >> 19)) * 0xd6e8feb86659fd93ULL) & mask;
  return x ^ (x >> 22);
}

/// The clustered key space: 4096 ranges of equal width and of very different shares of the records.
/// A share is a product of 12 factors, one for each halving of the range around it: of every two
/// halves one gets between 50 and 90 % (a multiplicative cascade, the usual model of clusters
/// within clusters).
class Clusters {
 public:
  static constexpr int levels = 12;
  static constexpr std::size_t ranges = std::size_t{1} << levels;

  static const Clusters& instance() {
    static const Clusters clusters;
    return clusters;
  }

  /// First position of each range; the end of the last one at the back.
  std::uint64_t first(std::size_t range) const noexcept { return first_[range]; }

  std::size_t range_at(std::uint64_t position) const noexcept {
    const auto above = std::upper_bound(first_.begin(), first_.end(), position);
    return static_cast<std::size_t>(above - first_.begin()) - 1;
  }

 private:
  Clusters() {
    Random random(0x05f0a6d51ab3ULL);
    std::vector<double> share{1.0};
    for (int level = 0; level < levels; ++level) {
      std::vector<double> halves;
      for (const double whole : share) {
        const double larger = 0.5 + 0.4 * random.uniform();
        const double left = random.next() % 2 == 0 ? larger : 1.0 - larger;
        halves.push_back(whole * left);
        halves.push_back(whole * (1.0 - left));
      }
      share = std::move(halves);
    }
    double below = 0.0;
    for (std::size_t range = 0; range < ranges; ++range) {
      first_[range] = static_cast<std::uint64_t>(below * static_cast<double>(positions));
      below += share[range];
    }
    first_[ranges] = positions;
  }

  std::array<std::uint64_t, ranges + 1> first_{};
};

constexpr int range_bits = 64 - Clusters::levels;

}  // namespace

std::uint64_t KeySpace::place_in_order(std::uint64_t record, std::uint64_t seed) const noexcept {
  // Not mix64(seed) itself, which scatters the other records.
  const std::uint64_t place = record + scale64(mix64(mix64(seed) + 1), in_order);
  return place < in_order ? place : place - in_order;
}

std::uint64_t KeySpace::position(std::uint64_t record, std::uint64_t seed) const noexcept {
  if (record < in_order) {
    // Rounded up, so that a file's key_at() finds another key for every record.
    __extension__ using wide = unsigned __int128;
    const wide place = place_in_order(record, seed);
    return static_cast<std::uint64_t>(((place << 64) + in_order - 1) / in_order);
  }
  switch (kind) {
    case Kind::clustered:
      return mix40(record, mix64(seed)) << (64 - position_bits);
    case Kind::file:
      return keys->position(record, seed);
    case Kind::points:
    case Kind::scattered:
      break;
  }
  return key_of_record(record, seed);
}

std::uint64_t KeySpace::key_at(std::uint64_t position) const noexcept {
  switch (kind) {
    case Kind::clustered: {
      const Clusters& clusters = Clusters::instance();
      const std::uint64_t place = position >> (64 - position_bits);
      const std::size_t range = clusters.range_at(place);
      const std::uint64_t from = clusters.first(range);
      // A range is wider than its records are many, so that they keep their distance.
      const std::uint64_t step =
          (std::uint64_t{1} << range_bits) / (clusters.first(range + 1) - from);
      return (std::uint64_t{range} << range_bits) + (place - from) * step;
    }
    case Kind::file:
      return keys->key_at(position);
    case Kind::points:
    case Kind::scattered:
      break;
  }
  return position;
}

std::uint64_t KeySpace::key(std::uint64_t record, std::uint64_t seed) const noexcept {
  if (kind == Kind::file && record >= in_order) return keys->key(record, seed);
  return key_at(position(record, seed));
}

double KeySpace::share_below(std::uint64_t key) const noexcept {
  switch (kind) {
    case Kind::clustered: {
      const Clusters& clusters = Clusters::instance();
      const auto range = static_cast<std::size_t>(key >> range_bits);
      const std::uint64_t from = clusters.first(range);
      const auto wide = static_cast<double>(clusters.first(range + 1) - from);
      const std::uint64_t within = key & ((std::uint64_t{1} << range_bits) - 1);
      return (static_cast<double>(from) + wide * static_cast<double>(within) *
                                              (1.0 / static_cast<double>(1ULL << range_bits))) /
             static_cast<double>(positions);
    }
    case Kind::file:
      return keys->share_below(key);
    case Kind::points:
    case Kind::scattered:
      break;
  }
  return static_cast<double>(key) * 0x1.0p-64;
}

std::vector<double> record_shares(const KeySpace& space, std::uint32_t slices) {
  std::vector<double> shares;
  shares.reserve(slices);
  double below = 0.0;
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    const double end =
        slice + 1 == slices ? 1.0 : space.share_below(first_key_of_slice(slice + 1, slices));
    shares.push_back(end - below);
    below = end;
  }
  return shares;
}

}  // namespace pmoss
