#include "analytic/trace_profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <utility>

#include "analytic/query_work.hpp"
#include "workload/portable_math.hpp"

namespace pmoss::analytic {
namespace {

/// What touched one recorded line or page: at most one touch per query counts.
struct Touched {
  std::uint32_t touches = 0;
  std::uint32_t writes = 0;
  std::uint32_t dependent = 0;
  std::uint32_t locks = 0;
  std::uint64_t last_query = ~std::uint64_t{0};
  std::uint64_t last_writer = ~std::uint64_t{0};
};

/// Popularities that a line may have, in touches during the trace: powers of 2.
constexpr int lowest_power = -2;
constexpr std::size_t popularities = 16;  // whatever is touched more often is of one class
constexpr int rounds = 60;
constexpr double least_lines = 0.01;

double popularity(std::size_t j) { return std::ldexp(1.0, static_cast<int>(j) + lowest_power); }

/// The mixture's weights for lines that were touched at least once, by expectation maximisation
/// from an even start. histogram[i]: so many lines were touched i.first times. `member` gets the
/// probability that a line with so many touches has each popularity.
std::vector<double> fit_mixture(const std::map<std::uint32_t, double>& histogram,
                                std::map<std::uint32_t, std::array<double, popularities>>& member) {
  std::vector<double> weight(popularities, 1.0 / popularities);
  member.clear();
  std::map<std::uint32_t, std::array<double, popularities>> likelihood;
  for (const auto& [touches, lines] : histogram) {
    auto& row = likelihood[touches];
    double log_factorial = 0.0;
    for (std::uint32_t i = 2; i <= std::min(touches, 1u << 16); ++i) {
      log_factorial += portable::log(static_cast<double>(i));
    }
    double best = -1e300;
    std::array<double, popularities> log_row{};
    for (std::size_t j = 0; j < popularities; ++j) {
      const double mean = popularity(j);
      const double touched_share = mean > 30.0 ? 1.0 : 1.0 - portable::exp(-mean);
      log_row[j] =
          touches * portable::log(mean) - mean - log_factorial - portable::log(touched_share);
      best = std::max(best, log_row[j]);
    }
    for (std::size_t j = 0; j < popularities; ++j) {
      row[j] = log_row[j] - best < -600.0 ? 0.0 : portable::exp(log_row[j] - best);
    }
  }
  double total = 0.0;
  for (const auto& [touches, lines] : histogram) total += lines;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> next(popularities, 0.0);
    for (const auto& [touches, lines] : histogram) {
      const auto& row = likelihood[touches];
      double sum = 0.0;
      for (std::size_t j = 0; j < popularities; ++j) sum += weight[j] * row[j];
      for (std::size_t j = 0; j < popularities; ++j) {
        const double share = sum > 0.0 ? weight[j] * row[j] / sum : 0.0;
        next[j] += lines / total * share;
        if (round + 1 == rounds) member[touches][j] = share;
      }
    }
    weight = next;
  }
  return weight;
}

/// A line touched more often than the mixture reaches.
constexpr std::uint32_t popular_touches() {
  return 1u << (static_cast<int>(popularities) - 1 + lowest_power);
}

struct Class {
  double lines = 0, touches = 0, writes = 0, dependent = 0, locks = 0;
};

/// Sorts touched lines into classes of equal popularity.
std::array<Class, popularities + 1> classify(const std::vector<Touched>& touched,
                                             const std::vector<std::uint32_t>& members) {
  std::array<Class, popularities + 1> classes{};
  std::map<std::uint32_t, double> histogram;
  for (const std::uint32_t i : members) {
    if (touched[i].touches > 0 && touched[i].touches < popular_touches()) {
      histogram[touched[i].touches] += 1.0;
    }
  }
  std::map<std::uint32_t, std::array<double, popularities>> member;
  const std::vector<double> weight = fit_mixture(histogram, member);
  double touched_lines = 0.0;
  for (const auto& [touches, lines] : histogram) touched_lines += lines;
  for (std::size_t j = 0; j < popularities; ++j) {
    const double mean = popularity(j);
    classes[j].lines = touched_lines * weight[j] / (mean > 30.0 ? 1.0 : 1.0 - portable::exp(-mean));
  }
  for (const std::uint32_t i : members) {
    const Touched& line = touched[i];
    if (line.touches == 0) continue;
    if (line.touches >= popular_touches()) {
      Class& top = classes[popularities];
      top.lines += 1.0;
      top.touches += line.touches;
      top.writes += line.writes;
      top.dependent += line.dependent;
      top.locks += line.locks;
      continue;
    }
    const auto& shares = member[line.touches];
    for (std::size_t j = 0; j < popularities; ++j) {
      classes[j].touches += shares[j] * line.touches;
      classes[j].writes += shares[j] * line.writes;
      classes[j].dependent += shares[j] * line.dependent;
      classes[j].locks += shares[j] * line.locks;
    }
  }
  return classes;
}

}  // namespace

SliceProfiles profile_trace(const recording::Trace& trace) {
  const std::size_t queries = trace.size();
  if (queries == 0) throw std::invalid_argument("a trace of 0 queries: must have at least 1");
  const std::size_t n = trace.slices;
  SliceProfiles p;
  p.slices = static_cast<int>(n);

  struct Moments {
    double queries = 0, instructions = 0, branch_misses = 0, dependent = 0, streaming = 0;
    double work = 0, square = 0;
  };
  std::vector<Moments> moments(n);
  std::vector<Touched> lines(trace.lines()), pages(trace.pages());
  std::vector<std::map<std::uint16_t, double>> executed(n);  // [touched][executing]
  for (std::size_t q = 0; q < queries; ++q) {
    const recording::TracedQuery& query = trace.queries[q];
    Moments& m = moments[query.slice];
    m.queries += 1.0;
    m.instructions += query.instructions;
    m.branch_misses += query.branch_misses;
    m.dependent += query.dependent;
    m.streaming += query.streaming;
    const double work =
        query_work(query.instructions, query.branch_misses, query.dependent, query.streaming);
    m.work += work;
    m.square += work * work;
    for (const recording::Touch touch : trace.touches_of(q)) {
      Touched& line = lines[touch.line()];
      if (touch.writes() && line.last_writer != q) {
        line.last_writer = q;
        ++line.writes;
      }
      line.locks += touch.locks() ? 1 : 0;
      if (line.last_query == q) continue;
      line.last_query = q;
      ++line.touches;
      line.dependent += touch.streams() ? 0 : 1;
      executed[trace.slice_of_line[touch.line()]][query.slice] += 1.0;
    }
    for (const std::uint32_t number : trace.pages_of(q)) {
      Touched& page = pages[number];
      if (page.last_query == q) continue;
      page.last_query = q;
      ++page.touches;
    }
  }
  std::vector<std::vector<std::uint32_t>> lines_of(n), pages_of(n);
  for (std::uint32_t i = 0; i < trace.lines(); ++i) lines_of[trace.slice_of_line[i]].push_back(i);
  for (std::uint32_t i = 0; i < trace.pages(); ++i) pages_of[trace.slice_of_page[i]].push_back(i);

  const auto all = static_cast<double>(queries);
  p.first_class.push_back(0);
  p.first_page_class.push_back(0);
  for (std::size_t s = 0; s < n; ++s) {
    for (const Class& c : classify(lines, lines_of[s])) {
      if (c.touches <= 0.0 || c.lines < least_lines) continue;
      const double scale = trace.line_sampling / all;
      p.add_class(c.lines * trace.line_sampling, c.touches / c.lines / all, c.dependent * scale,
                  (c.touches - c.dependent) * scale, std::min(1.0, c.writes / c.touches),
                  c.locks * scale);
    }
    for (const Class& c : classify(pages, pages_of[s])) {
      if (c.touches <= 0.0 || c.lines < least_lines) continue;
      p.add_pages(c.lines * trace.page_sampling, c.touches / c.lines / all);
    }
    p.end_slice();
    const Moments& m = moments[s];
    const double each = m.queries > 0.0 ? 1.0 / m.queries : 0.0;
    p.share.push_back(m.queries / all);
    p.instructions.push_back(m.instructions * each);
    p.branch_misses.push_back(m.branch_misses * each);
    p.dependent_touches.push_back(m.dependent * each);
    p.streaming_touches.push_back(m.streaming * each);
    p.variation.push_back(
        m.work > 0.0 ? std::max(0.0, m.square * m.queries / (m.work * m.work) - 1.0) : 0.0);
    double touches = 0.0;
    for (const auto& [executing, count] : executed[s]) touches += count;
    for (const auto& [executing, count] : executed[s]) {
      if (executing == s || count < 1e-3 * touches) continue;
      p.shared.push_back({static_cast<int>(executing), static_cast<int>(s), count / touches});
    }
  }
  return p;
}

}  // namespace pmoss::analytic
