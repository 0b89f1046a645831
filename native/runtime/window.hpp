// Consecutive queries of one worker, counted together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pmoss::runtime {

/// Remembers each query's slice and time, and shares out what was counted over all of them.
///
/// A query's part is its part of the time. For events that follow time (task_clock, cycles at a
/// steady clock rate) that is exact. For the others it is a proxy: a window's misses go to the
/// queries that took long, which is where most of them happened as long as it is misses that make a
/// query slow; a long scan without misses gets some of those of the lookups beside it. A query
/// during which the thread lost its core gets most of its window.
class Window {
 public:
  /// Full from `queries` on, with room for `more` that are completed together with the last one.
  explicit Window(std::size_t queries, std::size_t more = 0)
      : queries_(queries), slices_(queries + more), ticks_(queries + more) {}

  std::size_t size() const noexcept { return size_; }
  bool full() const noexcept { return size_ >= queries_; }

  void clear() noexcept {
    size_ = 0;
    unused_ticks_ = 0;
  }

  /// The next query. There must be room.
  void add(std::uint32_t slice, std::uint64_t ticks) noexcept {
    slices_[size_] = slice;
    ticks_[size_] = ticks;
    ++size_;
  }

  /// The last query took so much more. The window must not be empty.
  void extend(std::uint64_t ticks) noexcept { ticks_[size_ - 1] += ticks; }

  /// So much of the window's time was no query's; its part of the counts is nobody's either.
  void skip(std::uint64_t ticks) noexcept { unused_ticks_ += ticks; }

  /// Adds each query's part of `counts` (one per event) to its slice's row of `counters` [slices x
  /// events], and `weights` (one per group), whole, to its row of `counted` [slices x groups].
  void book(const std::vector<double>& counts, const std::vector<double>& weights,
            std::vector<double>& counters, std::vector<double>& counted) const noexcept {
    double sum = 0.0;
    for (std::size_t i = 0; i < size_; ++i) sum += static_cast<double>(ticks_[i]);
    const double per_tick = sum > 0.0 ? 1.0 / (sum + static_cast<double>(unused_ticks_)) : 0.0;
    for (std::size_t i = 0; i < size_; ++i) {
      const std::size_t slice = slices_[i];
      // A clock too coarse to see any of the queries: equal parts.
      const double part =
          sum > 0.0 ? static_cast<double>(ticks_[i]) * per_tick : 1.0 / static_cast<double>(size_);
      double* const to = &counters[slice * counts.size()];
      for (std::size_t event = 0; event < counts.size(); ++event) to[event] += counts[event] * part;
      double* const queries = &counted[slice * weights.size()];
      for (std::size_t group = 0; group < weights.size(); ++group) queries[group] += weights[group];
    }
  }

 private:
  std::size_t queries_;
  std::size_t size_ = 0;
  std::vector<std::uint32_t> slices_;
  std::vector<std::uint64_t> ticks_;
  std::uint64_t unused_ticks_ = 0;
};

}  // namespace pmoss::runtime
