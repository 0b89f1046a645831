// Points in the plane and the queries on them: the two-dimensional counterpart of keyspace.hpp and
// generator.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "workload/generator.hpp"
#include "workload/keyspace.hpp"
#include "workload/random.hpp"
#include "workload/zipf.hpp"

namespace pmoss {

/// Coordinates are whole numbers of 32 bits, so that comparing them is exact. OpenStreetMap stores
/// its own in the same width, in units of 1e-7 degrees.
struct Point {
  std::uint32_t x;
  std::uint32_t y;
  bool operator==(const Point&) const = default;
};

/// Both coordinates in one word.
constexpr std::uint64_t packed(Point point) noexcept {
  return std::uint64_t{point.y} << 32 | point.x;
}
constexpr Point unpacked(std::uint64_t word) noexcept {
  return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
}

/// All four borders belong to it.
struct Rectangle {
  std::uint32_t x_low;
  std::uint32_t y_low;
  std::uint32_t x_high;
  std::uint32_t y_high;
  bool operator==(const Rectangle&) const = default;

  constexpr bool contains(Point point) const noexcept {
    return point.x >= x_low && point.x <= x_high && point.y >= y_low && point.y <= y_high;
  }
  constexpr bool contains(const Rectangle& other) const noexcept {
    return other.x_low >= x_low && other.x_high <= x_high && other.y_low >= y_low &&
           other.y_high <= y_high;
  }
};

/// Cuts the plane into cells of equal width and height, one for each slice of an index: slice
/// row * columns + column.
struct Grid {
  std::uint32_t rows = 16;
  std::uint32_t columns = 16;

  constexpr std::uint32_t slices() const noexcept { return rows * columns; }
  constexpr std::uint32_t row_of(std::uint32_t y) const noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{y} * rows >> 32);
  }
  constexpr std::uint32_t column_of(std::uint32_t x) const noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{x} * columns >> 32);
  }
  constexpr std::uint32_t slice_of(Point point) const noexcept {
    return row_of(point.y) * columns + column_of(point.x);
  }
};

/// The grid for a number of slices: square where that number is, else as near to it as it divides.
/// Throws std::invalid_argument unless slices lie in 1 .. 65536.
Grid grid_of(std::uint32_t slices);

/// Points of a user, such as those of a file. A fixed pseudo-random order numbers the records:
/// files are often sorted, and a record's number must not tell its place.
class PointSet {
 public:
  /// So many points, which set() places. Throws std::invalid_argument unless there are at least 2.
  explicit PointSet(std::uint64_t size);

  std::uint64_t size() const noexcept { return size_; }
  /// Places the points number first, first + 1, ... in the order of the user; throws
  /// std::invalid_argument for those behind the last.
  void set(std::uint64_t first, std::span<const Point> points);

  /// The records behind the last point lie beside those before.
  Point of_record(std::uint64_t record) const noexcept;

 private:
  std::unique_ptr<Point[]> points_;
  std::uint64_t size_;
  int bits_;  // of the largest number
};

/// The place of a record; the same in all workload instances, as in a real data set. `scattered` is
/// uniform. `clustered` is synthetic and stands in for OpenStreetMap's US Northeast. It is a random
/// multiplicative cascade: the plane is halved both ways twelve times. Each time the four quarters
/// share the points in proportions drawn at random. At the four coarsest levels one quarter in
/// sixteen gets none (sea). Throws std::invalid_argument for `file` and `points`.
Point point_of_record(KeySpace::Kind kind, std::uint64_t record);
/// The same, and of kind `points` PointSet::of_record().
Point point_of_record(const KeySpace& space, std::uint64_t record);

/// The hot region of an instance: a square around one of its records, cut at the borders, that
/// holds about `hot_fraction` of all records.
Rectangle hot_region(const WorkloadSpec& spec);

/// The cells in which the records lie, counted on the first 262144 of them. A record's place does
/// not depend on its number, and so few records take under a millisecond.
class RecordSample {
 public:
  static constexpr std::uint64_t most_points = 1 << 18;

  /// Throws std::invalid_argument like point_of_record().
  RecordSample(const KeySpace& space, std::uint64_t records, const Grid& grid);

  /// [cell] share of all records that lie in the cell.
  const std::vector<double>& share() const noexcept { return share_; }
  /// [cell] share of all records that lie in the cell and in the region.
  std::vector<double> share_within(const Rectangle& region) const;

 private:
  std::vector<Point> points_;
  std::vector<std::uint32_t> cells_;
  std::vector<double> share_;
};

/// Throws std::invalid_argument, naming the value and what is right, when the spec makes no sense
/// for points.
void validate_points(const WorkloadSpec& spec);

/// The squares of scans over so many records spread evenly over the plane.
class ScanSquares {
 public:
  explicit ScanSquares(std::uint64_t records);
  /// Around this centre, cut at the plane's borders: holds `points` points on average.
  Rectangle around(Point centre, std::uint32_t points) const noexcept;

 private:
  double side_;  // of the square that holds one point on average
};

struct PointOperation {
  Operation::Kind kind;
  Rectangle range;       ///< of a scan; of a lookup or an insert the point alone
  std::uint64_t record;  ///< that an insert adds, or around which a range lies
  Point point;           ///< where that record lies
  std::uint32_t points;  ///< of a scan: what the range holds on average; else 0
};

/// Draws the operations of one client from a WorkloadSpec, read as follows. A scan is a square
/// centred on an existing record, so that the load follows the density of the points; it has the
/// area that holds n points on average over the whole plane, n uniform in 1 .. max_scan_length. A
/// lookup asks for the points at a record's place. An insert adds the next record. The distribution
/// says which record: any, one of Zipf's, or with the probability hot_share one in hot_region().
class PointGenerator {
 public:
  /// Throws std::invalid_argument like validate_points().
  PointGenerator(const WorkloadSpec& spec, std::uint64_t stream_seed)
      : PointGenerator(spec, stream_seed, spec.records, 1) {}
  /// Inserts take the records first_insert_record, first_insert_record + insert_stride, ...; the
  /// first must not be below spec.records.
  PointGenerator(const WorkloadSpec& spec, std::uint64_t stream_seed,
                 std::uint64_t first_insert_record, std::uint64_t insert_stride);

  PointOperation next();

 private:
  std::uint64_t choose_record();

  WorkloadSpec spec_;
  Random random_;
  std::optional<ZipfSampler> zipf_;
  std::optional<Rectangle> hot_;
  std::uint64_t next_insert_;
  std::uint64_t insert_stride_;
  ScanSquares squares_;
};

}  // namespace pmoss
