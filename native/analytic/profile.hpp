// Demand of each slice: how often its cache lines are touched, per query of the whole workload.
// Built once per workload instance. Schedules then only decide which slices share a cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pmoss::analytic {

/// Touches of a slice's lines by queries that run on another slice's core (a range that goes on).
struct SharedTouches {
  int executing;
  int touched;
  double share;  ///< of all touches of the touched slice's lines
};

/// Lines of one kind and one popularity form a class, so that a slice is a dozen numbers. Rates and
/// counts are per query of the workload where nothing else is said.
struct SliceProfiles {
  int slices = 0;

  std::vector<std::size_t> first_class;  // [slice], then the number of classes
  // [class]
  std::vector<double> lines;        // cache lines of the class
  std::vector<double> line_rate;    // touches of one line
  std::vector<double> dependent;    // touches that the next touch waits for, if the line is far
  std::vector<double> streaming;    // touches in runs that the processor fetches ahead
  std::vector<double> dirty_share;  // share of the touches that write
  std::vector<double> locks;        // of the touches, those that then take the node's lock

  std::vector<std::size_t> first_page_class;  // [slice], then the number of page classes
  // [page class]
  std::vector<double> pages;
  std::vector<double> page_rate;  // touches of one page

  // [slice]
  std::vector<double> share;              // probability that a query starts in the slice
  std::vector<double> instructions;       // per query of the slice
  std::vector<double> branch_misses;      // per query of the slice
  std::vector<double> dependent_touches;  // of whatever lines, per query of the slice
  std::vector<double> streaming_touches;
  /// Squared coefficient of variation of the work of one query: kinds and lengths differ.
  std::vector<double> variation;

  /// Sorted by the slice touched; what is left of a slice is touched by its own queries.
  std::vector<SharedTouches> shared;

  std::size_t classes() const { return lines.size(); }
  std::size_t page_classes() const { return pages.size(); }
  /// Makes room for so many slices of a usual number of classes.
  void reserve(std::size_t count) {
    constexpr std::size_t classes = 24, page_classes = 8;
    for (auto* values : {&lines, &line_rate, &dependent, &streaming, &dirty_share, &locks}) {
      values->reserve(count * classes);
    }
    for (auto* values : {&pages, &page_rate}) values->reserve(count * page_classes);
    for (auto* values : {&share, &instructions, &branch_misses, &dependent_touches,
                         &streaming_touches, &variation}) {
      values->reserve(count);
    }
    for (auto* values : {&first_class, &first_page_class}) values->reserve(count + 1);
  }
  void add_class(double count, double rate, double waits, double streams, double dirty,
                 double taken_locks) {
    lines.push_back(count);
    line_rate.push_back(rate);
    dependent.push_back(waits);
    streaming.push_back(streams);
    dirty_share.push_back(dirty);
    locks.push_back(taken_locks);
  }
  void add_pages(double count, double rate) {
    pages.push_back(count);
    page_rate.push_back(rate);
  }
  void end_slice() {
    first_class.push_back(lines.size());
    first_page_class.push_back(pages.size());
  }
};

}  // namespace pmoss::analytic
