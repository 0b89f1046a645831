// Sweeping rounds (P-MOSS, section 5): a sweeper per node collects what its workers have queued.
// One more sweeper reads the off-core counters. The stitcher joins their partial snapshots to one
// per round. Workers only push to a queue of their own, and never wait.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "pmu/events.hpp"
#include "pmu/offcore.hpp"
#include "runtime/control.hpp"
#include "runtime/spsc_ring.hpp"

namespace pmoss::runtime {

using EventCounts = std::array<double, pmu::event_count>;

/// What was counted in some windows of one worker.
struct CoreSample {
  std::uint64_t queries = 0;
  EventCounts counts{};
};

/// A worker's side. Nothing is lost when the sweeper is late: what does not fit in the queue goes
/// with the next window.
class StatsQueue {
 public:
  explicit StatsQueue(std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : ring_(256, memory) {}

  // The worker.
  void add(std::uint64_t queries, const std::vector<pmu::Event>& events,
           std::span<const double> counts) noexcept;
  void set_completed(std::uint64_t queries) noexcept {
    completed_.store(queries, std::memory_order_relaxed);
  }

  // The sweeper.
  /// Adds all that is queued.
  void take(CoreSample& sum) noexcept;
  std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_relaxed); }

 private:
  SpscRing<CoreSample> ring_;
  CoreSample pending_;
  alignas(128) std::atomic<std::uint64_t> completed_{0};
};

/// When rounds end: at equal intervals from the beginning of the measuring phase.
class Rounds {
 public:
  /// As many whole intervals as fit in `seconds`, at least one and at most 10,000; 0 for no
  /// sweeping.
  Rounds(double seconds, double interval_seconds) noexcept;

  std::size_t count() const noexcept { return count_; }
  /// Sleeps until the round has ended, or the phase has; returns the seconds since the beginning.
  double wait(std::size_t round, const Control& control) const;
  void begin() noexcept;

 private:
  using Time = std::chrono::steady_clock;
  double interval_ = 0.0;
  std::size_t count_ = 0;
  std::atomic<Time::time_point> begin_{Time::time_point{}};
};

/// Partial snapshots on their way to the stitcher.
template <typename Snapshot>
class SnapshotQueue {
 public:
  void push(Snapshot snapshot) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(snapshot));
  }
  std::vector<Snapshot> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Snapshot> waiting_;
};

struct CoreSnapshot {
  std::size_t round;
  std::size_t node;         ///< its place among those with workers
  std::uint64_t completed;  ///< queries in the round
  CoreSample sample;
};
struct OffcoreSnapshot {
  std::size_t round;
  double seconds;             ///< since the beginning
  std::vector<double> bytes;  ///< since the beginning, per quantity
};

/// Until all rounds are over. The body of a sweeper's thread.
void sweep_cores(const Control& control, const Rounds& rounds, std::size_t node,
                 const std::vector<StatsQueue*>& workers, SnapshotQueue<CoreSnapshot>& to);
void sweep_offcore(const Control& control, const Rounds& rounds,
                   const pmu::OffcoreCounters& counters, SnapshotQueue<OffcoreSnapshot>& to);

/// Whole rounds, in their order.
struct StitchedRounds {
  std::vector<int> nodes;                ///< the kernel's numbers of those with workers
  std::vector<double> seconds;           ///< [rounds] when it ended, since the beginning
  std::vector<std::uint64_t> queries;    ///< [rounds x nodes] completed
  std::vector<std::uint64_t> sampled;    ///< [rounds x nodes] of these, counted in windows
  std::vector<double> counters;          ///< [rounds x nodes x events] in these
  std::vector<double> offcore_gb_per_s;  ///< [rounds x quantities]
};

/// Joins partial snapshots to whole rounds.
///
/// Example with workers on two nodes: when round 4 ends, each node's sweeper pushes a CoreSnapshot
/// of round 4 and the off-core sweeper an OffcoreSnapshot of it. The round is appended by the first
/// stitch() that finds all three, and never before round 3.
class Stitcher {
 public:
  explicit Stitcher(std::vector<int> nodes) { stitched_.nodes = std::move(nodes); }

  SnapshotQueue<CoreSnapshot>& cores() noexcept { return cores_; }
  SnapshotQueue<OffcoreSnapshot>& offcore() noexcept { return offcore_; }

  /// Joins what has come. One thread at a time.
  void stitch();
  /// Only after the stitcher has ended.
  const StitchedRounds& rounds() const noexcept { return stitched_; }
  /// The whole rounds from `first` on. Any thread, at any time.
  StitchedRounds since(std::size_t first) const;

 private:
  struct Partial {
    std::vector<CoreSnapshot> cores;
    std::vector<OffcoreSnapshot> offcore;  // at most one
  };
  void append(const Partial& round);

  SnapshotQueue<CoreSnapshot> cores_;
  SnapshotQueue<OffcoreSnapshot> offcore_;
  std::map<std::size_t, Partial> waiting_;  ///< rounds of which a part is missing
  mutable std::mutex stitched_mutex_;
  StitchedRounds stitched_;
  double last_seconds_ = 0.0;
  std::vector<double> last_bytes_;
};

}  // namespace pmoss::runtime
