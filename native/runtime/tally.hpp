// What a worker counts, and how that reaches its sweeper while the worker runs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "pmu/counters.hpp"
#include "pmu/events.hpp"
#include "runtime/control.hpp"
#include "workload/histogram.hpp"

namespace pmoss::runtime {

using EventCounts = std::array<double, pmu::event_count>;

/// What was counted in some windows of one worker.
struct CoreSample {
  std::uint64_t queries = 0;
  EventCounts counts{};

  void add(const CoreSample& other) noexcept;
};

/// What one worker counted in a part of the measuring phase.
struct Tally {
  struct Slice {
    std::uint64_t queries = 0;
    /// The time in the index, of taking the query from its queue and of accounting for it; the
    /// windows of counters cover the same time. Waiting, routing, reading the counters and
    /// booking a window are in neither.
    std::uint64_t service_ticks = 0;
  };
  std::pmr::vector<Slice> slices;
  std::pmr::vector<double> counters;  ///< [slices x open events]
  /// [slices x groups]: queries, weighted with the running part
  std::pmr::vector<double> counted;
  Histogram latency;    ///< ticks
  CoreSample sample;    ///< of all windows
  pmu::Snapshot begin;  ///< of the part
  pmu::Snapshot end;
  std::uint64_t ticks = 0;  ///< length of the part
  std::uint64_t idle_ticks = 0;
  std::uint64_t queries = 0;
  std::uint64_t windows = 0;
  int cpu = -1;

  Tally(std::size_t slices, std::size_t events, std::size_t groups,
        std::pmr::memory_resource* memory);

  /// The part that follows this one.
  void add(const Tally& next) noexcept;
  void clear() noexcept;

 private:
  bool empty() const noexcept { return ticks == 0 && queries == 0; }
};

/// Between one worker and its sweeper. The worker counts in one tally and never waits. When the
/// sweeper asks, the worker takes an empty one, and the sweeper has the other.
///
/// Example: the sweeper asks at the end of round 4. The worker sees that after at most a burst of
/// queries, and hands over what it has counted since round 3. Nothing is lost when the sweeper is
/// late: then the next tally covers more time.
class TallyExchange {
 public:
  TallyExchange(std::size_t slices, std::size_t events, std::size_t groups,
                std::pmr::memory_resource* memory)
      : own_{Tally(slices, events, groups, memory), Tally(slices, events, groups, memory)},
        taken_(slices, events, groups, memory) {}

  // The worker.
  Tally& current() noexcept { return own_[current_]; }
  /// What current() will be.
  Tally& next() noexcept { return own_[current_ ^ 1U]; }
  bool asked() const noexcept { return state_.load(std::memory_order_acquire) == State::asked; }
  /// Once it is asked: current() is another one then, and empty.
  void hand_over() noexcept {
    current_ ^= 1U;
    state_.store(State::answered, std::memory_order_release);
  }
  /// The worker counts no more.
  void leave() noexcept { left_.store(true, std::memory_order_release); }

  // The sweeper.
  void ask() noexcept { state_.store(State::asked, std::memory_order_release); }
  /// Waits for what it has asked for; null if the run is aborted.
  const Tally* wait(const Control& control) const;
  /// It is done with what wait() returned.
  void took(const Tally& tally) noexcept;

  /// Of the whole measuring phase. Once neither thread uses it any more.
  Tally total() const;

 private:
  enum class State : std::uint8_t { idle, asked, answered };

  std::array<Tally, 2> own_;
  Tally taken_;  ///< the sum of all that the sweeper took
  unsigned current_ = 0;
  // Read by the worker once per burst, and rarely written.
  alignas(128) std::atomic<State> state_{State::idle};
  std::atomic<bool> left_{false};
};

}  // namespace pmoss::runtime
