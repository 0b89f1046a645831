#include "analytic/table_caches.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analytic/decay.hpp"

namespace pmoss::analytic {

TableCaches::TableCaches(const CacheInputs& inputs)
    : Caches(inputs),
      times_(inputs.map.cores()),
      marks_(inputs.map.cores()),
      search_start_(inputs.map.physical_cores),
      held_at_(inputs.map.domains),
      solved_state_(inputs.map.domains, 0) {}

void TableCaches::set_instance() {
  if (!instance_.profiles.shared.empty()) return;
  tables_.set(instance_.profiles, instance_.waits_without_padding(machine_));
  std::fill(search_start_.begin(), search_start_.end(), std::array<double, 3>{});
}

void TableCaches::start() {
  demand_.assign(streams_.size(), Demand{});
  left_llc_point_.assign(streams_.size(), {});
  known_past_.assign(streams_.size(), {});
  in_private_.assign(streams_.size(), {});
  held_.resize(held_points * streams_.size());  // the next line says that nothing is held
  std::fill(held_at_.begin(), held_at_.end(), std::array<HeldAt, held_points>{});
}

TableCaches::CoreSums TableCaches::sum_core(const std::vector<Index>& list) {
  CoreSums sums;
  sums.pace = streams_.reach(list.front()).pace;
  core_parts_.clear();
  for (const Index i : list) {
    const Stream& stream = streams_[i];
    core_parts_.push_back({stream.touched, stream.part});
    CoreTimes& times = times_[stream.core];
    times.pace = streams_.reach(i).pace;
    sums.one_pace = sums.one_pace && times.pace == sums.pace;
    times.offset = times.pace == sums.pace
                       ? 0.0
                       : SliceTables::point_of(times.pace) - SliceTables::point_of(sums.pace);
    const double relative = stream.part * times.pace / sums.pace;
    sums.lines += stream.part * tables_.all_lines(stream.touched);
    sums.pages += stream.part * tables_.all_pages(stream.touched);
    sums.line_touches += relative * tables_.line_touches(stream.touched);
    sums.page_touches += relative * tables_.page_touches(stream.touched);
  }
  return sums;
}

/// Where as many lines or pages are present as there is room; sum_at(slice, place) is of one slice,
/// at a point for which need(point) was called before.
template <typename SumAt, typename Need>
Bracket TableCaches::leave(const std::vector<Index>& list, const CoreSums& sums, double room,
                           double touches, double start, SumAt sum_at, Need need) {
  if (sums.one_pace) {
    // At the points of the tables the sums never fall, so that the result does not depend on the
    // way of the search: it starts where the last one ended, and a rough logarithm does.
    const auto present = [&](double at) {
      TableSum sum;
      const auto point = static_cast<std::size_t>(at);
      need(point);
      for (const Part& part : core_parts_) {
        const TableSum of_slice = sum_at(part.slice, point);
        sum.value += part.part * of_slice.value;
        sum.slope += part.part * of_slice.slope;
      }
      return sum;
    };
    if (start == 0.0) start = SliceTables::point_of(room / touches);
    return bracket_of(present, room, start, rough_log_ratio);
  }
  // Siblings of different pace look between points.
  const auto present = [&](double at) {
    TableSum sum;
    const auto point = static_cast<std::size_t>(at);
    need(point);
    for (const Index i : list) {
      const Stream& stream = streams_[i];
      const double offset = times_[stream.core].offset;
      const TablePosition between = SliceTables::position(at + offset);
      if (offset != 0.0) {
        need(between.point);
        need(between.point + 1);
      }
      const TableSum of_slice =
          offset == 0.0 ? sum_at(stream.touched, point) : sum_at(stream.touched, between);
      sum.value += stream.part * of_slice.value;
      sum.slope += stream.part * of_slice.slope;
    }
    return sum;
  };
  return bracket_of(present, room, SliceTables::point_of(room / touches),
                    [](double a, double b) { return portable::log(a / b); });
}

/// The points at which lines leave the private cache, and pages the two levels of the TLB.
std::array<double, 3> TableCaches::leave_core(Index physical, const CoreSums& sums) {
  const std::vector<Index>& list = streams_.of_physical(physical);
  std::array<double, 3>& starts = search_start_[physical];
  std::array<Bracket, 3> brackets;
  const bool l2 = sums.lines > machine_.l2_lines;
  const bool two_levels = second_tlb_ns() > 0.0;
  const bool first = two_levels && sums.pages > machine_.dtlb_pages;
  const bool second = sums.pages > machine_.tlb_pages;
  if (l2) {
    brackets[0] = leave(
        list, sums, machine_.l2_lines, sums.line_touches, starts[0],
        [&](std::size_t slice, auto at) { return tables_.lines(slice, at); },
        [&](std::size_t point) { tables_.need_lines(point); });
  }
  const auto pages_at = [&](std::size_t slice, auto at) { return tables_.pages(slice, at); };
  const auto need_pages = [&](std::size_t point) { tables_.need_pages(point); };
  if (first) {
    brackets[1] =
        leave(list, sums, machine_.dtlb_pages, sums.page_touches, starts[1], pages_at, need_pages);
  }
  if (second) {
    brackets[2] =
        leave(list, sums, machine_.tlb_pages, sums.page_touches, starts[2], pages_at, need_pages);
  }
  const std::array<double, 3> points = points_within(brackets);
  if (l2) starts[0] = points[0];
  if (first) starts[1] = points[1];
  if (second) starts[2] = points[2];
  return {l2 ? points[0] : SliceTables::never,
          first ? points[1] : (two_levels ? SliceTables::never : 0.0),
          second ? points[2] : SliceTables::never};
}

/// How long lines and pages stay in the private caches of a core, with no touches by other cores.
/// Times are in units of the first stream's pace.
void TableCaches::solve_core(Index physical) {
  const std::vector<Index>& list = streams_.of_physical(physical);
  const CoreSums sums = sum_core(list);
  const auto [point, left_first, left_second] = leave_core(physical, sums);
  private_time_[physical] = point == SliceTables::never ? std::numeric_limits<double>::infinity()
                                                        : SliceTables::time_of(point) / sums.pace;
  const TablePosition l2 = tables_.line_position(point);
  const TablePosition first = tables_.page_position(left_first);
  const TablePosition second = tables_.page_position(left_second);
  for (const Index i : list) {
    CoreTimes& times = times_[streams_[i].core];
    times.left_l2 = times.offset == 0.0 ? l2 : tables_.line_position(point + times.offset);
    marks_[streams_[i].core].state = ++state_;
    translate(i, times, left_first, first, left_second, second);
  }
  leave_private(list);
}

/// What streams have in their private cache, and bring to the last level.
void TableCaches::leave_private(const std::vector<Index>& list) {
  mixed_rows_.clear();
  for (const Index i : list) {
    const TablePosition& at = times_[streams_[i].core].left_l2;
    const float* const row = tables_.left(streams_[i].touched, at);
    mixed_rows_.push_back({{row, row}, {at.weights.data(), at.weights.data()}});
  }
  mix_rows(1.0);
  const double* left = mixed_.data();
  for (const Index i : list) {
    const Stream& stream = streams_[i];
    const CoreTimes& times = times_[stream.core];
    InPrivate& own = in_private_[i];
    own.lines = stream.part * tables_.all_lines(stream.touched);
    own.waits = left[0];
    if (machine_.llc_inclusive) {
      own.inserted = stream.part * tables_.line_touches(stream.touched) * times.pace;
    } else {
      own.beside = stream.part * tables_.lines(stream.touched, times.left_l2).value;
      own.inserted = stream.part * left[1] * times.pace;
    }
    left += mixed_sums;
  }
}

/// Fills `mixed_` with the sums of `mixed_rows_`.
void TableCaches::mix_rows(double share) {
  mixed_.resize(mixed_rows_.size() * mixed_sums);
  decay_kernels().mix_rows(mixed_rows_.data(), mixed_rows_.size(), share, mixed_.data());
}

/// What a stream waits for address translation, where pages leave the two levels of the TLB at two
/// points. What the first level lacks the second one serves, unless that lacks it, too.
void TableCaches::translate(Index i, const CoreTimes& times, double left_first,
                            const TablePosition& first, double left_second,
                            const TablePosition& second) {
  const Stream& stream = streams_[i];
  const double second_ns = second_tlb_ns();
  const auto misses = [&](double left, const TablePosition& same) {
    const TablePosition at =
        times.offset == 0.0 ? same : tables_.page_position(left + times.offset);
    return stream.part * std::max(0.0, tables_.page_misses(stream.touched, at));
  };
  const double walks = misses(left_second, second);
  demand_[i].dtlb_misses = walks;
  demand_[i].walk_ns = walks * (machine_.page_walk_ns - second_ns) +
                       (second_ns > 0.0 ? misses(left_first, first) * second_ns : 0.0);
}

/// Sums up what a domain's streams hold, and lists them and their cores.
TableCaches::DomainSums TableCaches::sum_domain(const std::vector<Index>& list,
                                                std::uint64_t solved) {
  domain_cores_.clear();
  domain_streams_.resize(list.size());
  fresh_.resize(list.size());
  Index at = 0;
  std::size_t fresh = 0;
  DomainSums sums;
  for (const Index i : list) {
    const Stream& stream = streams_[i];
    Mark& mark = marks_[stream.core];
    if (mark.in_domain >= domain_cores_.size() || domain_cores_[mark.in_domain] != stream.core) {
      mark.in_domain = static_cast<Index>(domain_cores_.size());
      domain_cores_.push_back(stream.core);
    }
    // wait_for_domain() will look near the place where it did for the last solution.
    for (const TablePosition& last : times_[stream.core].left_llc) {
      tables_.fetch_left(stream.touched, last);
    }
    fresh_[fresh] = at;
    fresh += mark.state > solved ? 1 : 0;
    domain_streams_[at++] = {stream.touched, mark.in_domain, stream.part};
    const InPrivate& own = in_private_[i];
    sums.all += own.lines;
    sums.beside += own.beside;
    sums.inserted += own.inserted;
  }
  fresh_.resize(fresh);
  domain_now_.resize(domain_cores_.size());
  for (Now& now : domain_now_) now.point = now.block = SliceTables::points;
  return sums;
}

/// The lines that the last level holds if each stays for the time at a point of the tables.
TableSum TableCaches::lines_in_domain(Index domain, const DomainSums& sums, double at) {
  const auto point = static_cast<std::size_t>(at);
  if (domain_sum_known_[point] != 0) return domain_sum_[point];
  const double time = SliceTables::time_of_point(point);
  TableSum sum{sums.passing * time - sums.beside, sums.passing * time * SliceTables::per_point};
  if (fresh_.size() == domain_streams_.size()) {
    add_lines_anew(sum, time);
  } else {
    TableSum* const held = &held_[point % held_points * streams_.size()];
    hold(domain, point, held);
    for (const Index i : streams_.of_domain(domain)) {
      sum.value += held[i].value;
      sum.slope += held[i].slope;
    }
  }
  domain_sum_known_[point] = 1;
  return domain_sum_[point] = sum;
}

/// Adds what hold() of every stream would say, and keeps nothing: where every core is new, what was
/// held is of no use.
void TableCaches::add_lines_anew(TableSum& total, double time) {
  const std::size_t n = domain_cores_.size();
  stays_.assign(padded(n), 1.0);
  for (std::size_t k = 0; k < n; ++k) {
    const double before = time_before(domain_cores_[k]);
    domain_now_[k].slope = time / (before + time);
    if (!std::isinf(before)) stays_[k] = (before + time) * times_[domain_cores_[k]].pace;
  }
  decay_kernels().logarithms(stays_.data(), stays_.size(), stays_.data());
  for (std::size_t k = 0; k < n; ++k) {
    domain_now_[k].at = tables_.line_position(std::isinf(time_before(domain_cores_[k]))
                                                  ? SliceTables::never
                                                  : SliceTables::point_of_log(stays_[k]));
  }
  TableSum sum = total;
  for (const DomainStream& stream : domain_streams_) {
    const Now& now = domain_now_[stream.core];
    const TableSum of_slice = tables_.lines(stream.slice, now.at);
    sum.value += stream.part * of_slice.value;
    sum.slope += stream.part * now.slope * of_slice.slope;
  }
  total = sum;
}

/// How long lines stay on a core before they come to the last level alone.
double TableCaches::time_before(Index core) const {
  return machine_.llc_inclusive ? 0.0 : private_time_[map_.physical_of_core[core]];
}

/// Brings what the streams of a domain hold at a point up to date.
void TableCaches::hold(Index domain, std::size_t point, TableSum* held) {
  const std::vector<Index>& list = streams_.of_domain(domain);
  const auto take = [&](std::size_t k) {
    const DomainStream& stream = domain_streams_[k];
    const Now& now = look(stream.core, point);
    const TableSum of_slice = tables_.lines(stream.slice, now.at);
    held[list[k]] = {stream.part * of_slice.value, stream.part * now.slope * of_slice.slope};
  };
  HeldAt& held_before = held_at_[domain][point % held_points];
  if (held_before.point == point && held_before.state == solved_state_[domain]) {
    for (const Index k : fresh_) take(k);
  } else {
    for (std::size_t k = 0; k < list.size(); ++k) {
      const Index core = domain_cores_[domain_streams_[k].core];
      if (held_before.point != point || marks_[core].state > held_before.state) take(k);
    }
  }
  held_before = {point, state_};
}

/// Where a core's lines are that stay in the domain for the time at a point of the tables.
const TableCaches::Now& TableCaches::look(Index in_domain, std::size_t point) {
  Now& now = domain_now_[in_domain];
  if (now.point == point) return now;
  now.point = point;
  const Index core = domain_cores_[in_domain];
  const double before = time_before(core);
  const double time = SliceTables::time_of_point(point);
  now.slope = time / (before + time);
  if (std::isinf(before)) {
    now.at = tables_.line_position(SliceTables::never);
    return now;
  }
  const std::size_t first = point / held_points * held_points;
  if (now.block != first) {
    now.block = first;
    for (std::size_t k = 0; k < held_points; ++k) {
      const std::size_t at = std::min(first + k, SliceTables::points - 1);
      now.logs[k] = (before + SliceTables::time_of_point(at)) * times_[core].pace;
    }
    decay_kernels().logarithms(now.logs.data(), held_points, now.logs.data());
  }
  now.at = tables_.line_position(SliceTables::point_of_log(now.logs[point - first]));
  return now;
}

/// When lines leave both the private cache and the domain, if they stay there for these times, for
/// each of `domain_cores_`.
void TableCaches::leave_domain(const std::array<double, 2>& stays) {
  const std::size_t n = domain_cores_.size();
  stays_.assign(padded(2 * n), 1.0);
  for (std::size_t k = 0; k < 2 * n; ++k) {
    const Index core = domain_cores_[k / 2];
    const double before = private_time_[map_.physical_of_core[core]], time = stays[k % 2];
    if (std::isinf(before) || std::isinf(time)) continue;
    const double stay = machine_.llc_inclusive ? std::max(before, time) : before + time;
    stays_[k] = stay * times_[core].pace;
  }
  decay_kernels().logarithms(stays_.data(), stays_.size(), stays_.data());
  for (std::size_t k = 0; k < 2 * n; ++k) {
    CoreTimes& times = times_[domain_cores_[k / 2]];
    const double before = private_time_[map_.physical_of_core[domain_cores_[k / 2]]];
    times.left_llc_point[k % 2] = std::isinf(before) || std::isinf(stays[k % 2])
                                      ? SliceTables::never
                                      : SliceTables::point_of_log(stays_[k]);
    times.left_llc[k % 2] = tables_.line_position(times.left_llc_point[k % 2]);
  }
}

void TableCaches::solve_domain(Index domain, double ns_per_unit) {
  const std::vector<Index>& list = streams_.of_domain(domain);
  DomainSums sums = sum_domain(list, solved_state_[domain]);
  sums.passing = passing_per_ns_[domain] * ns_per_unit;
  domain_sum_known_.fill(0);  // crowded and sparse sets look at the same points
  const auto present = [&](double at) { return lines_in_domain(domain, sums, at); };
  const double rooms[2] = {machine_.llc_lines * llc_sets_.crowded,
                           machine_.llc_lines * llc_sets_.sparse};
  double point = SliceTables::point_of(rooms[0] / (sums.inserted + sums.passing));
  std::array<double, 2> stays;
  stays.fill(std::numeric_limits<double>::infinity());
  for (std::size_t kind = 0; kind < 2; ++kind) {
    if (sums.all - sums.beside > rooms[kind] || sums.passing > 0.0) {
      point = point_where(present, rooms[kind], point);
      stays[kind] = SliceTables::time_of(point);
    }
  }
  leave_domain(stays);
  solved_state_[domain] = state_;
  wait_for_domain(list);
}

void TableCaches::wait_for_domain(const std::vector<Index>& list) {
  mixed_rows_.clear();
  for (const Index i : list) {
    const Index slice = streams_[i].touched;
    const CoreTimes& times = times_[streams_[i].core];
    left_llc_point_[i] = times.left_llc_point;
    const auto& [crowded, sparse] = times.left_llc;
    mixed_rows_.push_back({{tables_.left(slice, crowded), tables_.left(slice, sparse)},
                           {crowded.weights.data(), sparse.weights.data()}});
  }
  mix_rows(llc_sets_.crowded_share);
  const double* left = mixed_.data();
  for (const Index i : list) {
    wait_for(i, {std::max(0.0, in_private_[i].waits - left[0]), left[0], left[1], left[2]});
    left += mixed_sums;
  }
}

PastSums TableCaches::past_sums(Index i) const {
  KnownPast& past = known_past_[i];
  if (past.left != left_llc_point_[i]) past = {left_llc_point_[i], sum_past(i)};
  return past.sums;
}

void TableCaches::past_llc(Index i, std::span<double> past) const {
  const double* const rates = &instance_.rates[instance_.row(streams_[i].touched)];
  const auto fill = [&](double point, std::span<double> out) {
    if (point == SliceTables::never) {
      std::ranges::fill(out, 0.0);
    } else {
      decay_kernels().row_decay(rates, out.size(), SliceTables::time_of(point), out.data());
    }
  };
  crowded_past_.resize(past.size());
  fill(left_llc_point_[i][1], past);
  fill(left_llc_point_[i][0], crowded_past_);
  for (std::size_t k = 0; k < past.size(); ++k) {
    past[k] += llc_sets_.crowded_share * (crowded_past_[k] - past[k]);
  }
}

}  // namespace pmoss::analytic
