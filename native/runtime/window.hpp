// Consecutive queries of one worker, counted together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "runtime/tally.hpp"

namespace pmoss::runtime {

/// Divides the counts of a window over its queries.
///
/// A query's part is its part of the time. For events that follow time (task_clock, cycles at a
/// steady clock rate) that is exact. For the others it is a proxy: a window's misses go to the
/// queries that took long. That is right as long as misses make a query slow. A long scan without
/// misses gets some of those of the lookups beside it.
///
/// The time is that on the processor, as far as that is known. The thread may have lost its core
/// for a part of the window; then the query that took longest waited for that part. Waits
/// themselves (context_switches, cpu_migrations) go by all of the time.
///
/// Example: queries of slices 2, 5 and 2 took 10, 30 and 20 ticks, and 120 misses were counted.
/// Slice 2 is booked 60 misses for its 30 ticks, and slice 5 the other 60. Now say that the thread
/// was on the processor for 40 of these ticks. Then slice 5 has 10 of the 40, and 30 misses.
///
/// The slices of a tally hold queries and times already. A window is the difference between them
/// now and when it began, so that a query costs it nearly nothing. Booking costs as much as the
/// slices that had a query, or all slices where those are many.
class Window {
 public:
  using Slices = std::span<const Tally::Slice>;

  explicit Window(std::size_t slices,
                  std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : begin_(slices, memory), parts_(slices, memory), touched_(slices / 4 + 1, memory) {}

  /// What was counted.
  struct Counts {
    std::span<const double> counts;          ///< [events]
    std::span<const std::uint8_t> of_waits;  ///< [events] whether it counts what a wait brings
    std::span<const double> weights;         ///< [groups]
    double processor_ticks;                  ///< below 0 if that is not known
  };

  /// Whether the caller still has to list each slice that has a query.
  bool lists_slices() const noexcept { return !many(); }
  /// A query of this slice was completed, whether a window is open or not.
  void touch(std::uint32_t slice) noexcept {
    if (lists_slices()) touched_[touched_count_++] = slice;
  }
  /// A query of this slice took so long.
  void look_at(std::uint32_t slice, std::uint64_t ticks) noexcept {
    if (ticks > longest_ticks_) {
      longest_ticks_ = ticks;
      longest_slice_ = slice;
    }
  }

  /// It begins here.
  void begin(Slices now) noexcept {
    if (many()) {
      std::copy(now.begin(), now.end(), begin_.begin());
    } else {
      for (std::size_t i = 0; i < touched_count_; ++i) begin_[touched_[i]] = now[touched_[i]];
    }
    restart();
  }

  /// From now on the slices are those of a tally without any query.
  void change_tally() noexcept {
    std::fill(begin_.begin(), begin_.end(), Tally::Slice{});
    restart();
  }

  /// So much of the window's time belongs to no query, and so does its part of the counts.
  void skip(std::uint64_t ticks) noexcept { unused_ticks_ += ticks; }

  /// Adds each query's part of the counts to its slice's row of `counters` [slices x events]. Adds
  /// all of the weights to its row of `counted` [slices x groups]. The next window begins here.
  void book(Slices now, const Counts& counts, std::span<double> counters,
            std::span<double> counted) noexcept {
    collect_parts(now);
    const std::size_t groups = counts.weights.size();
    for (std::size_t group = 0; group < groups; ++group) {
      const double weight = counts.weights[group];
      if (weight == 0.0) continue;
      for (const Part& part : parts()) {
        counted[part.slice * groups + group] += weight * static_cast<double>(part.queries);
      }
    }
    const double all = static_cast<double>(ticks_) + static_cast<double>(unused_ticks_);
    const double waited =
        counts.processor_ticks >= 0.0
            ? std::clamp(all - counts.processor_ticks, 0.0, static_cast<double>(longest_ticks_))
            : 0.0;
    const std::size_t events = counts.counts.size();
    for (std::size_t event = 0; event < events; ++event) {
      const double count = counts.counts[event];
      // Most windows see most events of the kernel not once.
      if (count == 0.0) continue;
      if (ticks_ == 0) {
        // A clock too coarse to see any of the queries: equal parts.
        const double per_query = count / static_cast<double>(std::max<std::uint64_t>(queries_, 1));
        for (const Part& part : parts()) {
          counters[part.slice * events + event] += per_query * static_cast<double>(part.queries);
        }
        continue;
      }
      const double left_out = counts.of_waits[event] != 0 ? 0.0 : waited;
      const double per_tick = count / std::max(all - left_out, 1.0);
      for (const Part& part : parts()) {
        counters[part.slice * events + event] += per_tick * static_cast<double>(part.ticks);
      }
      if (left_out > 0.0) counters[longest_slice_ * events + event] -= per_tick * left_out;
    }
    restart();
  }

 private:
  struct Part {
    std::uint32_t slice;
    std::uint32_t queries;
    std::int64_t ticks;
  };

  std::span<const Part> parts() const noexcept { return {parts_.data(), parts_count_}; }

  void restart() noexcept {
    touched_count_ = 0;
    unused_ticks_ = 0;
    longest_ticks_ = 0;
  }

  /// More slices had a query than are worth a list.
  bool many() const noexcept { return touched_count_ == touched_.size(); }

  /// What each slice had in the window. The next one begins here.
  void collect_parts(Slices now) noexcept {
    parts_count_ = 0;
    ticks_ = 0;
    queries_ = 0;
    const auto take = [&](std::size_t slice) {
      const std::uint64_t queries = now[slice].queries - begin_[slice].queries;
      const std::uint64_t ticks = now[slice].service_ticks - begin_[slice].service_ticks;
      begin_[slice] = now[slice];
      parts_[parts_count_] = {static_cast<std::uint32_t>(slice),
                              static_cast<std::uint32_t>(queries),
                              static_cast<std::int64_t>(ticks)};
      // A slice that is named twice has nothing the second time.
      parts_count_ += queries > 0 ? 1U : 0U;
      queries_ += queries;
      ticks_ += ticks;
    };
    if (many()) {
      for (std::size_t slice = 0; slice < now.size(); ++slice) take(slice);
    } else {
      for (std::size_t i = 0; i < touched_count_; ++i) take(touched_[i]);
    }
  }

  std::pmr::vector<Tally::Slice> begin_;
  std::pmr::vector<Part> parts_;
  std::size_t parts_count_ = 0;
  std::uint64_t ticks_ = 0;
  std::uint64_t queries_ = 0;
  std::uint64_t unused_ticks_ = 0;
  std::uint64_t longest_ticks_ = 0;  ///< of a query
  std::uint32_t longest_slice_ = 0;
  // Slices that had a query since the window began, some of them twice, until the list is full.
  std::pmr::vector<std::uint32_t> touched_;
  std::size_t touched_count_ = 0;
};

}  // namespace pmoss::runtime
