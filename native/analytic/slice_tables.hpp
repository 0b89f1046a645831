// What becomes of a slice's lines and pages in a cache where each stays for one given time after
// its last touch, tabulated over that time: a schedule then takes no exponential for each line.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "analytic/decay.hpp"
#include "analytic/profile.hpp"
#include "workload/portable_math.hpp"

namespace pmoss::analytic {

/// A time between two points of the tables, with the weights of both for a cubic through values and
/// slopes.
struct TablePosition {
  std::size_t point = 0;
  std::array<double, 4> weights{1, 0, 0, 0};  // of value and slope here, then at the next point
  double rise = 0, rise_slope = 1, rise_next_slope = 0;  // the same for the slope of the cubic
};

/// A sum and its slope, per point of the tables.
struct TableSum {
  double value = 0, slope = 0;
};

/// The nearest number in [low, high]; `low` for what is no number, which std::clamp would let pass
/// into an index.
inline double within(double x, double low, double high) {
  return x > low ? std::min(x, high) : low;
}

/// Points lie evenly on the logarithm of time, from 1/64 of a query of the workload to 2^38 of
/// them. A schedule looks at few of them: sums are taken when a point is asked for first.
class SliceTables {
 public:
  SliceTables() = default;
  // Copies would share their memory.
  SliceTables(const SliceTables&) = delete;
  SliceTables& operator=(const SliceTables&) = delete;

  static constexpr int points_per_octave = table_phases;
  static constexpr int first_octave = -6, octaves = 44;
  static constexpr std::size_t points = octaves * points_per_octave + 1;
  static constexpr double per_point = 0.6931471805599453 / points_per_octave;  ///< in log time
  static constexpr double never = 1e9;  ///< the point where nothing has left yet

  /// `waits`: of a class, what its touches wait for while one of them takes 1 ns. The profiles must
  /// outlive this object, or its next set().
  void set(const SliceProfiles& profiles, std::vector<double> waits);

  // Whoever looks at a point says so first, or gets its place from line_position() and
  // page_position(), which do.
  void need_lines(std::size_t point) {
    if (!has_lines_[point / block]) add_lines(point / block);
  }
  void need_pages(std::size_t point) {
    if (!has_pages_[point / block]) add_pages(point / block);
  }
  TablePosition line_position(double point) {
    const TablePosition at = position(point);
    need_lines(at.point);
    need_lines(at.point + 1);
    return at;
  }
  TablePosition page_position(double point) {
    const TablePosition at = position(point);
    need_pages(at.point);
    need_pages(at.point + 1);
    return at;
  }

  /// Time in points; may lie outside of the tables.
  static double point_of(double time) { return point_of_log(portable::log(time)); }
  static double point_of_log(double log_time) {
    return log_time * (1.0 / per_point) - first_octave * points_per_octave;
  }
  static double time_of(double point) {
    return portable::exp((point + first_octave * points_per_octave) * per_point);
  }
  /// time_of() a point of the tables.
  static double time_of_point(std::size_t point) {
    static const std::array<double, points> times = [] {
      std::array<double, points> result{};
      for (std::size_t at = 0; at < points; ++at) result[at] = time_of(static_cast<double>(at));
      return result;
    }();
    return times[point];
  }
  /// The nearest that the tables could have.
  static TablePosition position(double point) {
    const double inside = within(point, 0.0, static_cast<double>(points - 1));
    TablePosition at;
    at.point = std::min(static_cast<std::size_t>(inside), points - 2);
    const double t = inside - static_cast<double>(at.point);
    const double rest = 1.0 - t;
    at.weights = {rest * rest * (1.0 + 2.0 * t), rest * rest * t, t * t * (3.0 - 2.0 * t),
                  -t * t * rest};
    at.rise = 6.0 * t * rest;
    at.rise_slope = rest * (1.0 - 3.0 * t);
    at.rise_next_slope = t * (3.0 * t - 2.0);
    return at;
  }

  /// Those that are present, at a point of the tables and between them.
  TableSum lines(std::size_t slice, std::size_t point) const {
    const float* v = &lines_[(slice * points + point) * line_width];
    return {v[0], v[1]};
  }
  TableSum pages(std::size_t slice, std::size_t point) const {
    const float* v = &pages_[(slice * points + point) * page_width];
    return {v[0], v[1]};
  }
  TableSum lines(std::size_t slice, const TablePosition& at) const {
    const float* v = &lines_[(slice * points + at.point) * line_width];
    return sum(v, v + line_width, at);
  }
  TableSum pages(std::size_t slice, const TablePosition& at) const {
    const float* v = &pages_[(slice * points + at.point) * page_width];
    return sum(v, v + page_width, at);
  }
  /// What of a slice has left, as mix_rows() takes it: waits, touches and write-backs.
  const float* left(std::size_t slice, const TablePosition& at) const {
    return &left_[(slice * points + at.point) * left_width];
  }
  /// Brings left() near before it is asked for.
  void fetch_left(std::size_t slice, const TablePosition& at) const {
    const float* const row = left(slice, at);
    __builtin_prefetch(row);
    __builtin_prefetch(row + 2 * left_width - 1);
  }
  /// Touches of pages that have left.
  double page_misses(std::size_t slice, const TablePosition& at) const {
    const float* v = &pages_[(slice * points + at.point) * page_width + 2];
    return mixed(v, v + page_width, at);
  }
  double all_lines(std::size_t slice) const { return all_lines_[slice]; }
  double all_pages(std::size_t slice) const { return all_pages_[slice]; }
  double line_touches(std::size_t slice) const { return line_touches_[slice]; }
  double page_touches(std::size_t slice) const { return page_touches_[slice]; }

 private:
  static TableSum sum(const float* v, const float* next, const TablePosition& at) {
    const double slope = at.rise * (static_cast<double>(next[0]) - v[0]) + at.rise_slope * v[1] +
                         at.rise_next_slope * next[1];
    return {mixed(v, next, at), slope};
  }
  static double mixed(const float* v, const float* next, const TablePosition& at) {
    const auto& w = at.weights;
    return w[0] * v[0] + w[1] * v[1] + w[2] * next[0] + w[3] * next[1];
  }

  // As many points as are summed up at once.
  static constexpr std::size_t block = table_octaves * table_phases;
  static constexpr std::size_t blocks = (points + block - 1) / block;

  /// Classes of one kind in rows of `decay_lanes` slices. Nearly all blocks are summed up right
  /// after set(): so each thread has two of them, which stay in its cache, for all of its tables.
  struct Rows {
    static constexpr std::size_t never_aged = octaves + 1;
    std::uint64_t tables = 0;        // the number of the tables that they are of; 0: none
    std::vector<std::size_t> first;  // row of each group of slices, then the number of rows
    std::vector<double> counts, touches, rates, waits, dirty_share;
    std::vector<std::uint8_t> dirty;
    using Gone = std::array<std::vector<double>, table_phases>;
    Gone gone, ahead;                 // see ClassRows; the latter of a later time
    std::size_t octave = never_aged;  // of `gone`
    std::size_t ahead_octave = never_aged;

    void make_room(const std::vector<std::size_t>& first_of_slice, std::size_t slices);
    void end_column(std::size_t slice, std::size_t row);
    void age_to(std::size_t octave);
    ClassRows of_group(std::size_t group);
  };
  /// [slice], then [class]; see SliceProfiles.
  struct Classes {
    const std::vector<std::size_t>& first;
    const std::vector<double>&counts, &rates;
  };

  void fill(Rows& rows, const Classes& classes, const double* waits,
            const double* dirty_share) const;

  void add_lines(std::size_t block);
  void add_pages(std::size_t block);
  template <std::size_t sums, typename Take>
  void add_points(Rows& rows, std::size_t block,
                  void (*sum)(const ClassRows&, const TableTimes&, double*), Take take);

  // [slice][point], because a slice is looked at between points, and at a few near each other.
  static constexpr std::size_t line_width = 2, left_width = 2 * mixed_sums, page_width = 4;
  std::shared_ptr<std::byte> memory_;  // of the three, of so many slices
  std::size_t slices_ = 0;
  float* lines_ = nullptr;  // present, and its slope
  float* left_ = nullptr;   // waits, touches, write-backs of what has left, 0; their slopes, 0
  float* pages_ = nullptr;  // present, its slope; touches of what has left, their slope
  std::array<bool, blocks> has_lines_{}, has_pages_{};
  std::uint64_t number_ = 0;  // unlike that of any instance before
  const SliceProfiles* profiles_ = nullptr;
  std::vector<double> waits_;                                                // per class
  std::vector<double> all_lines_, all_pages_, line_touches_, page_touches_;  // [slice]
};

/// Two neighbouring points of the tables between which an increasing sum reaches `wanted`.
struct Bracket {
  static constexpr int last = static_cast<int>(SliceTables::points) - 1;
  int low = -1, high = last + 1;  ///< the sum is below `wanted` at low, and not at high
  TableSum below{0.0, 0.0}, above{1.0, 1.0};
  double wanted = 0.5;
};

/// Searches for the bracket from the point `start` on. `log_ratio(a, b)`: about log(a / b). Where
/// the sums never fall from point to point, neither it nor the start changes the result.
template <typename Sum, typename LogRatio>
Bracket bracket_of(Sum sum, double wanted, double start, LogRatio log_ratio) {
  Bracket bracket;
  bracket.wanted = wanted;
  int at = static_cast<int>(within(start, 0.0, static_cast<double>(Bracket::last)));
  while (bracket.high - bracket.low > 1) {
    const TableSum sum_at = sum(static_cast<double>(at));
    const bool reached = sum_at.value >= wanted;
    (reached ? bracket.high : bracket.low) = at;
    (reached ? bracket.above : bracket.below) = sum_at;
    // A sum is nearly a power of time.
    const double far = sum_at.slope > 0.0 && sum_at.value > 0.0
                           ? log_ratio(wanted, sum_at.value) * sum_at.value / sum_at.slope
                           : 0.0;
    const int step = static_cast<int>(within(std::abs(far) + 0.5, 1.0, 64.0));
    at = reached ? std::max(at - step, bracket.low + 1) : std::min(at + step, bracket.high - 1);
  }
  return bracket;
}

/// Where the sums of some brackets reach what is wanted. Between two points a sum is a cubic, and
/// Newton's steps wait for each other: all brackets take them side by side.
template <std::size_t count>
std::array<double, count> points_within(const std::array<Bracket, count>& brackets) {
  std::array<double, count> a, b, t, result;
  for (std::size_t k = 0; k < count; ++k) {
    const auto& [low, high, below, above, wanted] = brackets[k];
    const double rise = above.value - below.value;
    a[k] = below.slope + above.slope - 2.0 * rise;
    b[k] = 3.0 * rise - 2.0 * below.slope - above.slope;
    t[k] = rise > 0.0 ? (wanted - below.value) / rise : 0.0;
  }
  for (int step = 0; step < 4; ++step) {
    for (std::size_t k = 0; k < count; ++k) {
      const TableSum& below = brackets[k].below;
      const double value = below.value + t[k] * (below.slope + t[k] * (b[k] + t[k] * a[k]));
      const double slope = below.slope + t[k] * (2.0 * b[k] + 3.0 * t[k] * a[k]);
      const double divisor = slope > 0.0 ? slope : 1.0;
      const double next = within(t[k] + (brackets[k].wanted - value) / divisor, 0.0, 1.0);
      t[k] = slope > 0.0 ? next : t[k];
    }
  }
  for (std::size_t k = 0; k < count; ++k) {
    const Bracket& bracket = brackets[k];
    result[k] = bracket.low < 0                ? 0.0
                : bracket.high > Bracket::last ? Bracket::last
                                               : bracket.low + t[k];
  }
  return result;
}

/// About log(a / b); below it where they are far apart.
inline double rough_log_ratio(double a, double b) { return 2.0 * (a - b) / (a + b); }

/// Where the increasing sum(point) reaches `wanted`, between the first and the last point of the
/// tables. `start` is where the search begins.
template <typename Sum>
double point_where(Sum sum, double wanted, double start) {
  return points_within<1>({bracket_of(sum, wanted, start, rough_log_ratio)})[0];
}

}  // namespace pmoss::analytic
