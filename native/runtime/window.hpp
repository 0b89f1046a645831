// Consecutive queries of one worker, counted together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

namespace pmoss::runtime {

/// Keeps each query's slice and time, and divides the counts over the queries.
///
/// A query's part is its part of the time. For events that follow time (task_clock, cycles at a
/// steady clock rate) that is exact. For the others it is a proxy: a window's misses go to the
/// queries that took long. That is right as long as misses make a query slow. A long scan without
/// misses gets some of those of the lookups beside it. A query during which the thread lost its
/// core gets most of its window.
///
/// Example: queries of slices 2, 5 and 2 took 10, 30 and 20 ticks, and 120 misses were counted.
/// Slice 2 is booked 60 misses for its 30 ticks, and slice 5 the other 60.
///
/// Queries of one slice are kept as one: adding a query costs a few stores, and booking as much as
/// the window has slices, not queries.
class Window {
 public:
  /// Full from `queries` on; more may follow.
  Window(std::size_t slices, std::size_t queries,
         std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : queries_(queries),
        ticks_of_(slices, memory),
        queries_of_(slices, memory),
        touched_(slices + 1, memory) {}

  std::size_t size() const noexcept { return size_; }
  bool full() const noexcept { return size_ >= queries_; }

  void clear() noexcept {
    for (std::size_t i = 0; i < touched_count_; ++i) {
      ticks_of_[touched_[i]] = 0;
      queries_of_[touched_[i]] = 0;
    }
    touched_count_ = 0;
    size_ = 0;
    ticks_ = 0;
    unused_ticks_ = 0;
  }

  /// The next query.
  void add(std::uint32_t slice, std::uint64_t ticks) noexcept {
    touched_[touched_count_] = slice;
    touched_count_ += queries_of_[slice] == 0 ? 1 : 0;
    ++queries_of_[slice];
    ticks_of_[slice] += ticks;
    ticks_ += ticks;
    last_slice_ = slice;
    ++size_;
  }

  /// The last query took so much more. The window must not be empty.
  void extend(std::uint64_t ticks) noexcept {
    ticks_of_[last_slice_] += ticks;
    ticks_ += ticks;
  }

  /// So much of the window's time belongs to no query, and so does its part of the counts.
  void skip(std::uint64_t ticks) noexcept { unused_ticks_ += ticks; }

  /// Adds each query's part of `counts` (one per event) to its slice's row of `counters` [slices x
  /// events]. Adds all of `weights` (one per group) to its row of `counted` [slices x groups].
  void book(std::span<const double> counts, std::span<const double> weights,
            std::span<double> counters, std::span<double> counted) const noexcept {
    const double per_tick =
        ticks_ > 0 ? 1.0 / (static_cast<double>(ticks_) + static_cast<double>(unused_ticks_)) : 0.0;
    const double per_query = 1.0 / static_cast<double>(size_);
    const std::size_t events = counts.size();
    const std::size_t groups = weights.size();
    for (std::size_t i = 0; i < touched_count_; ++i) {
      const std::size_t slice = touched_[i];
      const auto queries = static_cast<double>(queries_of_[slice]);
      // A clock too coarse to see any of the queries: equal parts.
      const double part =
          ticks_ > 0 ? static_cast<double>(ticks_of_[slice]) * per_tick : queries * per_query;
      double* const to = &counters[slice * events];
      for (std::size_t event = 0; event < events; ++event) to[event] += counts[event] * part;
      double* const booked = &counted[slice * groups];
      for (std::size_t group = 0; group < groups; ++group)
        booked[group] += weights[group] * queries;
    }
  }

 private:
  std::size_t queries_;
  std::size_t size_ = 0;
  std::uint64_t ticks_ = 0;
  std::uint64_t unused_ticks_ = 0;
  std::uint32_t last_slice_ = 0;
  // Per slice, and which of them are not 0, with room for one that turns out to be known already.
  std::pmr::vector<std::uint64_t> ticks_of_;
  std::pmr::vector<std::uint32_t> queries_of_;
  std::pmr::vector<std::uint32_t> touched_;
  std::size_t touched_count_ = 0;
};

}  // namespace pmoss::runtime
