#include "analytic/slice_tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "workload/portable_math.hpp"
#include "workload/random.hpp"

namespace pmoss::analytic {
namespace {

constexpr std::size_t points = SliceTables::points;

/// Slices of 0 to 7 classes, of lines that nothing dirties too. More slices than a kernel takes at
/// once, and no multiple of these.
SliceProfiles drawn_profiles() {
  Random random(3);
  SliceProfiles profiles;
  profiles.slices = 2 * static_cast<int>(decay_lanes) + 3;
  profiles.first_class.push_back(0);
  profiles.first_page_class.push_back(0);
  for (int slice = 0; slice < profiles.slices; ++slice) {
    for (std::uint64_t k = random.below(8); k > 0; --k) {
      const double rate = portable::exp(-30.0 * random.uniform());
      const double dirty = k % 3 == 0 ? 0.0 : random.uniform();
      profiles.add_class(1e4 * random.uniform(), rate, 0.0, 0.0, dirty, 0.0);
    }
    for (std::uint64_t k = random.below(4); k > 0; --k) {
      profiles.add_pages(1e3 * random.uniform(), portable::exp(-30.0 * random.uniform()));
    }
    profiles.end_slice();
  }
  return profiles;
}

std::vector<double> drawn_waits(std::size_t classes) {
  Random random(4);
  std::vector<double> waits(classes);
  for (double& wait : waits) wait = random.uniform();
  return waits;
}

/// Calls visit(x, gone) for the rate times the time of a point, class after class, as the formulas
/// have it: each octave doubles the time.
template <typename Visit>
void at_point(std::size_t point, double rate, Visit visit) {
  double x = rate * SliceTables::time_of(static_cast<double>(point % 2));
  double gone = x < 1e-5 ? x * (1.0 - 0.5 * x) : 1.0 - portable::exp(-std::min(x, 700.0));
  for (std::size_t octave = 0; octave < point / 2; ++octave) {
    x *= 2.0;
    gone = std::min(1.0, gone * (2.0 - gone));
  }
  visit(x, gone);
}

std::array<float, 8> expected_lines(const SliceProfiles& p, const std::vector<double>& waits,
                                    std::size_t slice, std::size_t point) {
  std::array<double, 8> sums{};
  for (std::size_t k = p.first_class[slice]; k < p.first_class[slice + 1]; ++k) {
    const double lines = p.lines[k], dirty = p.dirty_share[k];
    const double touches = lines * p.line_rate[k];
    at_point(point, p.line_rate[k], [&](double x, double gone) {
      const double kept = 1.0 - gone;
      const double falls = x * kept * SliceTables::per_point;
      sums[0] += lines * gone;
      sums[1] += lines * falls;
      sums[2] += waits[k] * kept;
      sums[3] -= waits[k] * falls;
      sums[4] += touches * kept;
      sums[5] -= touches * falls;
      if (dirty == 0.0) return;
      const double written = dirty / (dirty + (1.0 - dirty) * kept);
      sums[6] += touches * written * kept;
      sums[7] -= touches * written * written * falls;
    });
  }
  std::array<float, 8> result;
  std::ranges::transform(sums, result.begin(), [](double sum) { return static_cast<float>(sum); });
  return result;
}

std::array<float, 2> expected_pages(const SliceProfiles& p, std::size_t slice, std::size_t point) {
  std::array<double, 2> sums{};
  for (std::size_t k = p.first_page_class[slice]; k < p.first_page_class[slice + 1]; ++k) {
    at_point(point, p.page_rate[k], [&](double x, double gone) {
      sums[0] += p.pages[k] * gone;
      sums[1] += p.pages[k] * (x * (1.0 - gone) * SliceTables::per_point);
    });
  }
  return {static_cast<float>(sums[0]), static_cast<float>(sums[1])};
}

/// Points in the order in which a test asks for them.
std::vector<std::size_t> asked_points(int order) {
  std::vector<std::size_t> result(points);
  for (std::size_t i = 0; i < points; ++i) result[i] = i;
  if (order == 1) std::ranges::reverse(result);
  if (order == 2) {
    Random random(5);
    for (std::size_t i = points; i > 1; --i) std::swap(result[i - 1], result[random.below(i)]);
  }
  return result;
}

TEST(SliceTables, HasTheSumsOfTheFormulasInWhateverOrderItIsAsked) {
  const SliceProfiles profiles = drawn_profiles();
  const std::vector<double> waits = drawn_waits(profiles.classes());
  SliceTables tables;
  for (int order = 0; order < 3; ++order) {
    tables.set(profiles, waits);
    for (const std::size_t point : asked_points(order)) {
      tables.need_lines(point);
      tables.need_pages(point);
      for (std::size_t slice = 0; slice < static_cast<std::size_t>(profiles.slices); ++slice) {
        const auto lines = expected_lines(profiles, waits, slice, point);
        const auto pages = expected_pages(profiles, slice, point);
        ASSERT_EQ(tables.lines(slice, point).value, lines[0]) << slice << ' ' << point;
        ASSERT_EQ(tables.lines(slice, point).slope, lines[1]);
        ASSERT_EQ(tables.pages(slice, point).value, pages[0]);
        ASSERT_EQ(tables.pages(slice, point).slope, pages[1]);
        TablePosition at;
        at.point = point;
        const float* const left = tables.left(slice, at);
        for (std::size_t i = 0; i < 6; ++i) ASSERT_EQ(left[i / 2 + i % 2 * 4], lines[2 + i]);
      }
    }
  }
}

TEST(SliceTables, ForgetsTheInstanceBefore) {
  SliceProfiles profiles = drawn_profiles();
  const std::vector<double> waits = drawn_waits(profiles.classes());
  SliceTables tables;
  tables.set(profiles, waits);
  tables.need_lines(40);
  for (double& lines : profiles.lines) lines *= 2.0;
  tables.set(profiles, waits);
  tables.need_lines(40);
  for (std::size_t slice = 0; slice < 3; ++slice) {
    EXPECT_EQ(tables.lines(slice, 40).value, expected_lines(profiles, waits, slice, 40)[0]);
  }
}

TEST(SliceTables, SumsTheSameBitsAtEveryWidth) {
  constexpr std::size_t rows = 5, n = rows * decay_lanes;
  Random random(6);
  std::array<std::vector<double>, 7> values;
  for (auto& column : values) {
    column.resize(n);
    for (double& value : column) value = random.uniform();
  }
  std::vector<std::uint8_t> dirty{1, 0, 1, 1, 0};
  const auto& [counts, touches, rates, waits, dirty_share, first, second] = values;
  const TableTimes times{{0.5, 0.7}, SliceTables::per_point};
  constexpr std::size_t at_once = table_phases * table_octaves * decay_lanes;
  std::vector<double> lines, pages, aged;
  for (const DecayKernels& kernels : all_decay_kernels()) {
    std::vector<double> line_out(at_once * line_sums), page_out(at_once * page_sums);
    std::vector<double> gone[] = {first, second}, later(n);
    const ClassRows classes{counts.data(),
                            touches.data(),
                            rates.data(),
                            waits.data(),
                            dirty_share.data(),
                            dirty.data(),
                            {gone[0].data(), gone[1].data()},
                            rows};
    kernels.sum_lines(classes, times, line_out.data());
    kernels.age(first.data(), n, table_octaves, later.data());
    EXPECT_EQ(gone[0], later) << kernels.name;  // the sums leave what follows
    kernels.sum_pages(classes, times, page_out.data());
    kernels.age(gone[1].data(), n, 4, gone[1].data());
    if (lines.empty()) {
      lines = line_out;
      pages = page_out;
      aged = gone[1];
    }
    EXPECT_EQ(line_out, lines) << kernels.name;
    EXPECT_EQ(page_out, pages) << kernels.name;
    EXPECT_EQ(gone[1], aged) << kernels.name;
  }
}

TEST(SliceTables, TouchesWithinATimeHaveTheBitsOfThePortableExponential) {
  std::vector<double> rates{0.0};
  for (double rate = 1e-9; rate < 1e6; rate *= 1.37) rates.push_back(rate);
  rates.resize(padded(rates.size()), 0.0);
  for (const DecayKernels& kernels : all_decay_kernels()) {
    std::vector<double> out(rates.size());
    kernels.gone_within(rates.data(), rates.size(), 0.7, out.data());
    for (std::size_t i = 0; i < rates.size(); ++i) {
      const double x = rates[i] * 0.7;
      const double expected =
          x < 1e-5 ? x * (1.0 - 0.5 * x) : 1.0 - portable::exp(-std::min(x, 700.0));
      EXPECT_EQ(out[i], expected) << kernels.name << ' ' << rates[i];
    }
  }
}

}  // namespace
}  // namespace pmoss::analytic
