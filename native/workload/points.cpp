#include "workload/points.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

namespace pmoss {
namespace {

constexpr std::uint64_t data_seed = 0x4f534d2d4e45;  // any: the data set is one and the same
constexpr int cascade_levels = 12;
constexpr int empty_levels = 4;
constexpr int coarse_levels = 9;
constexpr double plane_width = 4294967296.0;

/// How the quarters of a square share its points: the shares of the first one to four together.
using Shares = std::array<std::uint32_t, 4>;

/// `square` is a number of its own for each.
Shares shares(std::uint64_t square, int level) {
  const std::uint64_t hash = mix64(square ^ mix64(data_seed));
  Shares result;
  std::uint32_t sum = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const auto draw = static_cast<std::uint32_t>(hash >> (16 * i) & 0xff);
    const bool empty = level < empty_levels && (hash >> (16 * i + 8) & 15) == 0;
    sum += empty ? 0 : (draw + 64) * (draw + 64);
    result[i] = sum;
  }
  if (sum == 0) {
    for (unsigned i = hash >> 14 & 3; i < 4; ++i) result[i] = 1;
  }
  return result;
}

/// The coarse levels of the cascade, which all points pass: 2 MiB, by the number of the square.
const std::vector<Shares>& coarse_squares() {
  static const std::vector<Shares> table = [] {
    std::vector<Shares> result(std::size_t{2} << (2 * (coarse_levels - 1)));
    for (int level = 0; level < coarse_levels; ++level) {
      const std::uint64_t first = std::uint64_t{1} << (2 * level);
      for (std::uint64_t square = first; square < 2 * first; ++square) {
        result[square] = shares(square, level);
      }
    }
    return result;
  }();
  return table;
}

Point clustered_point(std::uint64_t hash) {
  const Shares* const coarse = coarse_squares().data();
  std::uint32_t x = 0;
  std::uint32_t y = 0;
  std::uint64_t square = 1;
  for (int level = 0; level < cascade_levels; ++level) {
    const Shares share = level < coarse_levels ? coarse[square] : shares(square, level);
    hash = mix64(hash);
    const std::uint64_t drawn = scale64(hash, share[3]);
    const unsigned quarter =
        unsigned{drawn >= share[0]} + unsigned{drawn >= share[1]} + unsigned{drawn >= share[2]};
    x = x << 1 | (quarter & 1);
    y = y << 1 | quarter >> 1;
    square = square << 2 | quarter;
  }
  hash = mix64(hash);
  constexpr int rest = 32 - cascade_levels;
  const auto low = static_cast<std::uint32_t>(hash >> (64 - rest));
  const auto high = static_cast<std::uint32_t>(hash & ((std::uint64_t{1} << rest) - 1));
  return {x << rest | low, y << rest | high};
}

std::uint32_t clamped(double coordinate) {
  return static_cast<std::uint32_t>(std::clamp(coordinate, 0.0, plane_width - 1.0));
}

/// A bijection of the integers of so many bits that scatters its input.
constexpr std::uint64_t scattered(std::uint64_t x, int bits) {
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  const int half = bits / 2 + 1;
  x = (x + data_seed) & mask;
  x = ((x ^ x >> half) * 0x9e3779b97f4a7c15ULL) & mask;
  x = ((x ^ x >> half) * 0xd6e8feb86659fd93ULL) & mask;
  return x ^ x >> half;
}

Rectangle square_around(Point centre, double half) {
  return {clamped(centre.x - half), clamped(centre.y - half), clamped(centre.x + half),
          clamped(centre.y + half)};
}

}  // namespace

Grid grid_of(std::uint32_t slices) {
  if (slices < 1 || slices > 65536) {
    throw std::invalid_argument("slices is " + std::to_string(slices) +
                                "; it must lie in 1 .. 65536");
  }
  auto rows = static_cast<std::uint32_t>(std::sqrt(static_cast<double>(slices)));
  while (slices % rows != 0) --rows;
  return {rows, slices / rows};
}

Point point_of_record(KeySpace::Kind kind, std::uint64_t record) {
  const std::uint64_t hash = mix64(record + mix64(data_seed));
  switch (kind) {
    case KeySpace::Kind::scattered:
      return {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(hash)};
    case KeySpace::Kind::clustered:
      return clustered_point(hash);
    default:
      throw std::invalid_argument(
          "the key space is a file of keys; points are scattered, clustered or a user's");
  }
}

Point point_of_record(const KeySpace& space, std::uint64_t record) {
  return space.kind == KeySpace::Kind::points ? space.points->of_record(record)
                                              : point_of_record(space.kind, record);
}

PointSet::PointSet(std::uint64_t size) : size_(size), bits_(std::bit_width(size - 1)) {
  if (size < 2) {
    throw std::invalid_argument("size is " + std::to_string(size) + "; it must be at least 2");
  }
  points_ = std::make_unique<Point[]>(size);
}

void PointSet::set(std::uint64_t first, std::span<const Point> points) {
  if (first > size_ || points.size() > size_ - first) {
    throw std::invalid_argument(std::to_string(points.size()) + " points from number " +
                                std::to_string(first) + " on were given to a set of " +
                                std::to_string(size_));
  }
  std::copy(points.begin(), points.end(), points_.get() + first);
}

Point PointSet::of_record(std::uint64_t record) const noexcept {
  std::uint64_t number = record % size_;
  do number = scattered(number, bits_);
  while (number >= size_);
  Point point = points_[number];
  const auto beside = static_cast<std::uint32_t>(record / size_);
  point.x += point.x < 1U << 31 ? beside : -beside;
  return point;
}

Rectangle hot_region(const WorkloadSpec& spec) {
  constexpr std::size_t samples = 8192;
  Random random(mix64(spec.seed));
  const auto draw = [&] { return point_of_record(spec.space, random.below(spec.records)); };
  const Point centre = draw();
  std::vector<std::uint32_t> distances(samples);
  for (auto& distance : distances) {
    const Point point = draw();
    distance = std::max(std::max(point.x, centre.x) - std::min(point.x, centre.x),
                        std::max(point.y, centre.y) - std::min(point.y, centre.y));
  }
  const auto wanted = distances.begin() + static_cast<std::ptrdiff_t>(spec.hot_fraction * samples);
  std::nth_element(distances.begin(), wanted, distances.end());
  return square_around(centre, *wanted);
}

RecordSample::RecordSample(const KeySpace& space, std::uint64_t records, const Grid& grid)
    : share_(grid.slices(), 0.0) {
  const std::uint64_t n = std::min<std::uint64_t>(records, most_points);
  points_.reserve(n);
  cells_.reserve(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    const Point point = point_of_record(space, i);
    points_.push_back(point);
    cells_.push_back(grid.slice_of(point));
    share_[cells_.back()] += 1.0 / static_cast<double>(n);
  }
}

std::vector<double> RecordSample::share_within(const Rectangle& region) const {
  std::vector<double> result(share_.size(), 0.0);
  const double each = 1.0 / static_cast<double>(points_.size());
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (region.contains(points_[i])) result[cells_[i]] += each;
  }
  return result;
}

void validate_points(const WorkloadSpec& spec) {
  validate(spec);
  for (const double share : {spec.update, spec.read_modify_write}) {
    if (share == 0.0) continue;
    throw std::invalid_argument("update is " + std::to_string(share) +
                                "; it must be 0, for points do not move");
  }
  if (spec.distribution == Distribution::latest) {
    throw std::invalid_argument("distribution is latest; points in the plane have no age");
  }
  if (spec.space.kind == KeySpace::Kind::file) point_of_record(spec.space.kind, 0);
  if (spec.space.in_order != 0) {
    throw std::invalid_argument("distribution is zipf_ordered; points in the plane have no order");
  }
  if (spec.distribution == Distribution::hot_range) {
    if (spec.hot_fraction < 0.01) {
      throw std::invalid_argument("hot_fraction is " + std::to_string(spec.hot_fraction) +
                                  "; for points it must be at least 0.01");
    }
    if (spec.drift != 0.0) {
      throw std::invalid_argument("drift is " + std::to_string(spec.drift) +
                                  "; it must be 0, for a hot region stays where it is");
    }
  }
}

ScanSquares::ScanSquares(std::uint64_t records)
    : side_(plane_width / std::sqrt(static_cast<double>(records))) {}

Rectangle ScanSquares::around(Point centre, std::uint32_t points) const noexcept {
  return square_around(centre, 0.5 * side_ * std::sqrt(static_cast<double>(points)));
}

PointGenerator::PointGenerator(const WorkloadSpec& spec, std::uint64_t stream_seed,
                               std::uint64_t first_insert_record, std::uint64_t insert_stride)
    : spec_(spec),
      random_(mix64(mix64(spec.seed) + stream_seed)),
      next_insert_(first_insert_record),
      insert_stride_(insert_stride),
      squares_(spec.records) {
  validate_points(spec);
  if (first_insert_record < spec.records) {
    throw std::invalid_argument("first_insert_record is " + std::to_string(first_insert_record) +
                                "; it must be at least records, " + std::to_string(spec.records));
  }
  if (spec.distribution == Distribution::zipf) zipf_.emplace(spec.zipf_items, spec.theta);
  if (spec.distribution == Distribution::hot_range) hot_ = hot_region(spec);
}

std::uint64_t PointGenerator::choose_record() {
  if (zipf_) {
    // Which records are hot depends on the instance.
    return scale64(mix64((*zipf_)(random_) + mix64(spec_.seed)), spec_.records);
  }
  std::uint64_t record = random_.below(spec_.records);
  if (hot_ && random_.uniform() < spec_.hot_share) {
    // The record in the middle is one of them, so this ends.
    while (!hot_->contains(point_of_record(spec_.space, record))) {
      record = random_.below(spec_.records);
    }
  }
  return record;
}

PointOperation PointGenerator::next() {
  const double draw = random_.uniform();
  const bool inserts = draw < spec_.insert;
  const std::uint64_t record = inserts ? next_insert_ : choose_record();
  if (inserts) next_insert_ += insert_stride_;
  const Point point = point_of_record(spec_.space, record);
  const Rectangle place = {point.x, point.y, point.x, point.y};
  if (inserts) return {Operation::Kind::insert, place, record, point, 0};
  if (draw >= spec_.insert + spec_.scan) return {Operation::Kind::lookup, place, record, point, 0};
  const auto points = static_cast<std::uint32_t>(1 + random_.below(spec_.max_scan_length));
  return {Operation::Kind::scan, squares_.around(point, points), record, point, points};
}

}  // namespace pmoss
