// Sums of exponentials over many cache lines at once, in vectors as wide as the processor has; the
// bits are the same at every width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pmoss::analytic {

/// Arrays given to the kernels are padded to a multiple of this with lines and rates of 0.
inline constexpr std::size_t decay_lanes = 8;

constexpr std::size_t padded(std::size_t n) noexcept {
  return (n + decay_lanes - 1) / decay_lanes * decay_lanes;
}

struct Absent {
  double lines = 0;  ///< sum of lines[i] exp(-rates[i] time)
  double slope = 0;  ///< the same with each term times its rate: how fast the sum falls
};

/// What the touches of a row of line classes wait for and move, by where the lines are.
struct RowSums {
  double near = 0;     ///< waits that the last level ends
  double far = 0;      ///< waits that go beyond it
  double fetched = 0;  ///< lines fetched from beyond
  double dirtied = 0;  ///< of these, lines that go back written
};

/// Rows of line classes are padded to a multiple of this with zeros. Kernels take whole rows.
inline constexpr std::size_t row_lanes = 4;

/// [class] of one row.
struct Row {
  const double *waits, *touches, *dirty_share;
  const double *past_l2, *past_llc;  ///< probability that a line has left the cache
  std::size_t n;
};

/// The queries at the stations of a closed network; see closed_throughput().
struct Queued {
  double queries = 0, slope = 0;  ///< the latter by throughput
};

/// A number and its place.
struct Greatest {
  double value = 0;
  std::size_t at = 0;
};

/// How many sums a row of mix_rows() has; see SliceTables.
inline constexpr std::size_t mixed_sums = 4;

/// A row of a table at two times: at the point of the table before each, `mixed_sums` sums and as
/// many slopes. Those at the next point follow.
struct MixedRow {
  const float* rows[2];
  const double* weights[2];  ///< of the sums and slopes there, then of those at the next point
};

/// Classes of lines, or of pages, of slices side by side: a row of `decay_lanes` slices per class.
/// Where a slice has fewer classes than its neighbours, the rest of its column is 0.
struct ClassRows {
  const double *counts, *touches, *rates;
  const double *waits, *dirty_share;  ///< of lines only
  const std::uint8_t* dirty;          ///< of lines only: per row, whether any of it is dirtied
  /// [phase] of each: probability that it is touched within the time of a point; see table_phases.
  /// The sums leave those of the points that follow.
  double* gone[2];
  std::size_t rows;
};

/// Points of a table per octave of time, and how many octaves, with their points, are summed up at
/// once.
inline constexpr std::size_t table_phases = 2, table_octaves = 2;
/// Sums over lines, and over pages, at one point of a table; see SliceTables.
inline constexpr std::size_t line_sums = 8, page_sums = 4;

/// Where sums are taken: at points of each phase, from those of `gone` on.
struct TableTimes {
  double times[table_phases];  ///< of the first points
  double per_point;            ///< distance of two points in logarithmic time
};

struct DecayKernels {
  const char* name;
  Absent (*absent)(const double* lines, const double* rates, std::size_t n, double time);
  /// out[i] = exp(-rates[i] time)
  void (*decay)(const double* rates, std::size_t n, double time, double* out);
  // Of rows, in the bits of exp_of_negative().
  /// out[i] = exp(-rates[i] time)
  void (*row_decay)(const double* rates, std::size_t n, double time, double* out);
  /// out[i] = exp(-time / means[i])
  void (*row_left)(const double* means, std::size_t n, double time, double* out);
  /// out[i] = log(x[i]), in the bits of portable::log(); n is padded.
  void (*logarithms)(const double* x, std::size_t n, double* out);
  /// The sums over stations, of any number, at the throughput x.
  Queued (*queue)(const double* demands, const double* bursts, std::size_t n, double x);
  /// The greatest of n numbers that are not negative, and the first place that has it.
  Greatest (*greatest)(const double* x, std::size_t n);
  /// out[mixed_sums i + k]: the sums of row i, `share` of those at its first time and the rest of
  /// those at its second.
  void (*mix_rows)(const MixedRow* rows, std::size_t n, double share, double* out);
  /// A line goes back to memory if any touch wrote it while it stayed: of the touches of one stay,
  /// 1 / past_llc on average, each writes with the dirty share.
  RowSums (*sum_row)(const Row& row);
  /// out[i]: gone[i] of 2^octaves times the time; n is padded. `out` may be `gone`.
  void (*age)(const double* gone, std::size_t n, std::size_t octaves, double* out);
  /// out[i] = 1 - exp(-rates[i] time) in the bits of portable::exp(), without cancellation; n is
  /// padded.
  void (*gone_within)(const double* rates, std::size_t n, double time, double* out);
  /// out[point][line_sums][decay_lanes], the points in the order of time.
  void (*sum_lines)(const ClassRows& lines, const TableTimes& at, double* out);
  /// out[point][page_sums][decay_lanes]
  void (*sum_pages)(const ClassRows& pages, const TableTimes& at, double* out);
};

/// Those that this processor can run, the fastest last.
std::span<const DecayKernels> all_decay_kernels();

/// The fastest.
const DecayKernels& decay_kernels();

}  // namespace pmoss::analytic
