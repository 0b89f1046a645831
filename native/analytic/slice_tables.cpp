#include "analytic/slice_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "numa/huge_memory.hpp"
#include "workload/portable_math.hpp"

namespace pmoss::analytic {
namespace {

constexpr std::size_t points = SliceTables::points;
constexpr std::size_t phases = SliceTables::points_per_octave;

double absent_at_first(double x) {
  // 1 - exp(-x) without cancellation.
  return x < 1e-5 ? x * (1.0 - 0.5 * x) : 1.0 - portable::exp(-std::min(x, 700.0));
}

/// Calls visit(point, x, gone) for every point, x being rate times time and gone 1 - exp(-x): twice
/// the time squares the exponential.
template <typename Visit>
void over_time(double rate, Visit visit) {
  for (std::size_t phase = 0; phase < phases; ++phase) {
    double x = rate * SliceTables::time_of(static_cast<double>(phase));
    double gone = absent_at_first(x);
    for (std::size_t point = phase; point < points; point += phases) {
      visit(point, x, gone);
      x *= 2.0;
      gone = std::min(1.0, gone * (2.0 - gone));
    }
  }
}

}  // namespace

void SliceTables::build(const SliceProfiles& p, const std::vector<double>& waits) {
  const auto n = static_cast<std::size_t>(p.slices);
  if (slices_ != n) {
    // All in one, so that a model touches few pages. The longest rows begin at halves of a line.
    constexpr std::size_t floats = left_width + page_width + line_width;
    memory_ = numa::huge_memory(n * points * floats * sizeof(float));
    left_ = reinterpret_cast<float*>(memory_.get());
    pages_ = left_ + n * points * left_width;
    lines_ = pages_ + n * points * page_width;
    slices_ = n;
  }
  for (auto* sums : {&all_lines_, &all_pages_, &line_touches_, &page_touches_})
    sums->assign(n, 0.0);
  std::array<std::array<double, 8>, points> line_sums;
  std::array<std::array<double, 4>, points> page_sums;
  for (std::size_t s = 0; s < n; ++s) {
    line_sums = {};
    page_sums = {};
    for (std::size_t k = p.first_class[s]; k < p.first_class[s + 1]; ++k) {
      const double lines = p.lines[k], wait = waits[k], dirty = p.dirty_share[k];
      const double touches = lines * p.line_rate[k];
      all_lines_[s] += lines;
      line_touches_[s] += touches;
      over_time(p.line_rate[k], [&](std::size_t point, double x, double gone) {
        const double kept = 1.0 - gone;
        const double falls = x * kept * per_point;  // of `kept`, up to the next point
        auto& sum = line_sums[point];
        sum[0] += lines * gone;
        sum[1] += lines * falls;
        sum[2] += wait * kept;
        sum[3] -= wait * falls;
        sum[4] += touches * kept;
        sum[5] -= touches * falls;
        if (dirty == 0.0) return;
        // A line goes back written if any touch of its stay wrote; see RowSums.
        const double written = dirty / (dirty + (1.0 - dirty) * kept);
        sum[6] += touches * written * kept;
        sum[7] -= touches * written * written * falls;
      });
    }
    for (std::size_t k = p.first_page_class[s]; k < p.first_page_class[s + 1]; ++k) {
      const double count = p.pages[k], touches = count * p.page_rate[k];
      all_pages_[s] += count;
      page_touches_[s] += touches;
      over_time(p.page_rate[k], [&](std::size_t point, double x, double gone) {
        const double falls = x * (1.0 - gone) * per_point;
        auto& sum = page_sums[point];
        sum[0] += count * gone;
        sum[1] += count * falls;
        sum[2] += touches * (1.0 - gone);
        sum[3] -= touches * falls;
      });
    }
    for (std::size_t point = 0; point < points; ++point) {
      const std::size_t at = s * points + point;
      for (std::size_t i = 0; i < 2; ++i) {
        lines_[at * line_width + i] = static_cast<float>(line_sums[point][i]);
      }
      for (std::size_t i = 0; i < 6; ++i) {
        left_[at * left_width + i / 2 + i % 2 * 4] = static_cast<float>(line_sums[point][2 + i]);
      }
      for (std::size_t i = 0; i < 4; ++i) {
        pages_[at * page_width + i] = static_cast<float>(page_sums[point][i]);
      }
    }
  }
}

}  // namespace pmoss::analytic
