#include "analytic/slice_tables.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <utility>

#include "numa/huge_memory.hpp"

namespace pmoss::analytic {

/// Makes room for the classes of slices.
void SliceTables::Rows::make_room(const std::vector<std::size_t>& first_of_slice,
                                  std::size_t slices) {
  first.assign(1, 0);
  for (std::size_t begin = 0; begin < slices; begin += decay_lanes) {
    std::size_t most = 0;
    for (std::size_t s = begin; s < std::min(begin + decay_lanes, slices); ++s) {
      most = std::max(most, first_of_slice[s + 1] - first_of_slice[s]);
    }
    first.push_back(first.back() + most);
  }
  for (auto* values : {&counts, &touches, &rates, &waits, &dirty_share}) {
    values->resize(first.back() * decay_lanes);
  }
  dirty.assign(first.back(), 0);
  octave = never_aged;
  ahead_octave = never_aged;
}

/// Brings `gone` to an octave or, from there on, leaves it before.
void SliceTables::Rows::age_to(std::size_t to) {
  if (octave <= to) return;
  // Twice the time squares the exponential: the first octave is the only one that takes any.
  for (std::size_t phase = 0; phase < table_phases; ++phase) {
    std::vector<double>& values = gone[phase];
    values.resize(rates.size());
    decay_kernels().gone_within(rates.data(), rates.size(), time_of_point(phase), values.data());
    decay_kernels().age(values.data(), values.size(), to, values.data());
  }
  octave = to;
}

/// Fills the rest of a slice's column, which has no class, from a row on.
void SliceTables::Rows::end_column(std::size_t slice, std::size_t row) {
  for (; row < first[slice / decay_lanes + 1]; ++row) {
    for (auto* values : {&counts, &touches, &rates, &waits, &dirty_share}) {
      (*values)[row * decay_lanes + slice % decay_lanes] = 0.0;
    }
  }
}

ClassRows SliceTables::Rows::of_group(std::size_t group) {
  const std::size_t row = first[group], at = row * decay_lanes;
  return {&counts[at],
          &touches[at],
          &rates[at],
          &waits[at],
          &dirty_share[at],
          &dirty[row],
          {&ahead[0][at], &ahead[1][at]},
          first[group + 1] - row};
}

void SliceTables::set(const SliceProfiles& p, std::vector<double> waits) {
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
  has_lines_.fill(false);
  has_pages_.fill(false);
  static std::atomic<std::uint64_t> latest = 0;
  number_ = ++latest;
  profiles_ = &p;
  waits_ = std::move(waits);
  for (auto* sums : {&all_lines_, &all_pages_, &line_touches_, &page_touches_})
    sums->assign(n, 0.0);
  for (std::size_t s = 0; s < n; ++s) {
    for (std::size_t k = p.first_class[s]; k < p.first_class[s + 1]; ++k) {
      all_lines_[s] += p.lines[k];
      line_touches_[s] += p.lines[k] * p.line_rate[k];
    }
    for (std::size_t k = p.first_page_class[s]; k < p.first_page_class[s + 1]; ++k) {
      all_pages_[s] += p.pages[k];
      page_touches_[s] += p.pages[k] * p.page_rate[k];
    }
  }
}

/// Fills rows with the classes of this instance, unless that was done last. `waits` and
/// `dirty_share` of each class: of lines only.
void SliceTables::fill(Rows& rows, const Classes& classes, const double* waits,
                       const double* dirty_share) const {
  if (rows.tables == number_) return;
  rows.tables = 0;
  rows.make_room(classes.first, slices_);
  for (std::size_t s = 0; s < slices_; ++s) {
    std::size_t row = rows.first[s / decay_lanes];
    for (std::size_t k = classes.first[s]; k < classes.first[s + 1]; ++k, ++row) {
      const std::size_t at = row * decay_lanes + s % decay_lanes;
      rows.counts[at] = classes.counts[k];
      rows.touches[at] = classes.counts[k] * classes.rates[k];
      rows.rates[at] = classes.rates[k];
      if (waits == nullptr) continue;
      rows.waits[at] = waits[k];
      rows.dirty_share[at] = dirty_share[k];
      if (dirty_share[k] != 0.0) rows.dirty[row] = 1;
    }
    rows.end_column(s, row);
  }
  for (std::size_t s = slices_; s % decay_lanes != 0; ++s) {
    rows.end_column(s, rows.first[s / decay_lanes]);
  }
  rows.tables = number_;
}

/// Sums up the classes of every slice at the points of a block; take(slice, point, sums) gets the
/// sums of one slice, `decay_lanes` apart.
template <std::size_t sums, typename Take>
void SliceTables::add_points(Rows& rows, std::size_t block_number,
                             void (*sum)(const ClassRows&, const TableTimes&, double*), Take take) {
  // What is asked for next lies near by, on both sides.
  constexpr std::size_t octaves_before = 3 * table_octaves;
  const std::size_t octave = block_number * table_octaves, point = block_number * block;
  rows.age_to(std::min(rows.octave, octave - std::min(octave, octaves_before)));
  // Blocks are asked for one after the other: one often begins where the last one ended.
  const bool near = rows.ahead_octave <= octave;
  const std::size_t from = near ? rows.ahead_octave : rows.octave;
  rows.ahead_octave = Rows::never_aged;
  for (std::size_t phase = 0; phase < table_phases; ++phase) {
    std::vector<double>& now = rows.ahead[phase];
    now.resize(rows.rates.size());
    if (near && from == octave) continue;
    const double* const before = near ? now.data() : rows.gone[phase].data();
    decay_kernels().age(before, now.size(), octave - from, now.data());
  }
  TableTimes times{{}, per_point};
  for (std::size_t phase = 0; phase < table_phases; ++phase) {
    times.times[phase] = std::ldexp(time_of_point(phase), static_cast<int>(octave));
  }
  std::array<double, block * sums * decay_lanes> out;
  for (std::size_t begin = 0; begin < slices_; begin += decay_lanes) {
    sum(rows.of_group(begin / decay_lanes), times, out.data());
    for (std::size_t s = begin; s < std::min(begin + decay_lanes, slices_); ++s) {
      const double* of_slice = &out[s - begin];
      for (std::size_t at = point; at < std::min(point + block, points); ++at) {
        take(s, at, of_slice);
        of_slice += sums * decay_lanes;
      }
    }
  }
  rows.ahead_octave = octave + table_octaves;
}

void SliceTables::add_lines(std::size_t block_number) {
  has_lines_[block_number] = true;
  const auto take = [this](std::size_t slice, std::size_t point, const double* sums) {
    const std::size_t at = slice * points + point;
    for (std::size_t i = 0; i < 2; ++i) {
      lines_[at * line_width + i] = static_cast<float>(sums[i * decay_lanes]);
    }
    for (std::size_t i = 0; i < 6; ++i) {
      left_[at * left_width + i / 2 + i % 2 * 4] = static_cast<float>(sums[(2 + i) * decay_lanes]);
    }
  };
  thread_local Rows rows;
  const SliceProfiles& p = *profiles_;
  fill(rows, {p.first_class, p.lines, p.line_rate}, waits_.data(), p.dirty_share.data());
  add_points<line_sums>(rows, block_number, decay_kernels().sum_lines, take);
}

void SliceTables::add_pages(std::size_t block_number) {
  has_pages_[block_number] = true;
  const auto take = [this](std::size_t slice, std::size_t point, const double* sums) {
    const std::size_t at = slice * points + point;
    for (std::size_t i = 0; i < 4; ++i) {
      pages_[at * page_width + i] = static_cast<float>(sums[i * decay_lanes]);
    }
  };
  thread_local Rows rows;
  const SliceProfiles& p = *profiles_;
  fill(rows, {p.first_page_class, p.pages, p.page_rate}, nullptr, nullptr);
  add_points<page_sums>(rows, block_number, decay_kernels().sum_pages, take);
}

}  // namespace pmoss::analytic
