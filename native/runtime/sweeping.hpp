// Sweeping rounds (P-MOSS, section 5): a sweeper per node collects what its workers have counted.
// One more sweeper reads the off-core counters. The stitcher joins their partial snapshots to one
// per round. Workers hand over what they counted, and never wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "pmu/offcore.hpp"
#include "runtime/control.hpp"
#include "runtime/tally.hpp"

namespace pmoss::runtime {

/// When rounds end: at equal intervals from the beginning of the measuring phase.
///
/// Without an end, a round is at least half as long as the interval, also after sweepers were late.
/// The last one begins when the phase is over, so that together they hold all that was counted.
class Rounds {
 public:
  /// As many whole intervals as fit in `seconds`, at least one and at most 10,000; 0 for no
  /// sweeping. Of infinite seconds there is no end.
  Rounds(double seconds, double interval_seconds) noexcept;

  std::size_t count() const noexcept { return count_; }
  /// Sleeps until the round has ended, or the phase has; returns the seconds since the beginning.
  /// Empty if there is no such round, or if the run is aborted.
  std::optional<double> wait(std::size_t round, const Control& control);
  void begin() noexcept;

 private:
  using Time = std::chrono::steady_clock;
  static constexpr std::size_t endless = std::numeric_limits<std::size_t>::max();

  Time::time_point end_of(std::size_t round);
  bool is_past_last(std::size_t round);

  double interval_ = 0.0;
  std::size_t count_ = 0;
  std::atomic<Time::time_point> begin_{Time::time_point{}};
  // Without an end. Sweepers agree on these.
  std::mutex mutex_;
  std::size_t newest_ = 0;  ///< round that a sweeper waits for, or did
  Time::time_point newest_end_{};
  std::optional<std::size_t> last_;
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
  double seconds;           ///< in which they were: of its workers, in the mean
  CoreSample sample;
  std::vector<std::pair<std::size_t, Tally>> workers = {};  ///< by number, if asked for
};
struct OffcoreSnapshot {
  std::size_t round;
  double seconds;             ///< since the beginning
  std::vector<double> bytes;  ///< since the beginning, per quantity
  std::vector<pmu::OffcoreCounters::Counts> counts = {};
};

/// One worker of a sweeper's node.
struct SweptWorker {
  std::size_t number;
  TallyExchange* tallies;
};

/// Until all rounds are over. The body of a sweeper's thread. `whole`: the workers' tallies go to
/// the stitcher, too, and not their sums alone.
void sweep_cores(const Control& control, Rounds& rounds, std::size_t node,
                 const std::vector<SweptWorker>& workers, bool whole,
                 SnapshotQueue<CoreSnapshot>& to);
void sweep_offcore(const Control& control, Rounds& rounds, const pmu::OffcoreCounters& counters,
                   SnapshotQueue<OffcoreSnapshot>& to);

/// What all sweepers found in one round.
struct WholeRound {
  std::vector<CoreSnapshot> cores;
  std::vector<OffcoreSnapshot> offcore;  ///< one
};

/// Whole rounds, in their order.
struct StitchedRounds {
  std::vector<int> nodes;                ///< the kernel's numbers of those with workers
  std::vector<double> seconds;           ///< [rounds] when it ended, since the beginning
  std::vector<std::uint64_t> queries;    ///< [rounds x nodes] completed
  std::vector<double> node_seconds;      ///< [rounds x nodes] in which they were
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
  /// `tell`: gets each whole round instead of rounds(), on the thread that stitches.
  explicit Stitcher(std::vector<int> nodes, std::function<void(WholeRound)> tell = {})
      : tell_(std::move(tell)) {
    stitched_.nodes = std::move(nodes);
  }

  SnapshotQueue<CoreSnapshot>& cores() noexcept { return cores_; }
  SnapshotQueue<OffcoreSnapshot>& offcore() noexcept { return offcore_; }

  /// Joins what has come. One thread at a time.
  void stitch();
  /// Only after the stitcher has ended.
  const StitchedRounds& rounds() const noexcept { return stitched_; }
  /// The whole rounds from `first` on. Any thread, at any time.
  StitchedRounds since(std::size_t first) const;

 private:
  void append(const WholeRound& round);

  std::function<void(WholeRound)> tell_;
  SnapshotQueue<CoreSnapshot> cores_;
  SnapshotQueue<OffcoreSnapshot> offcore_;
  std::map<std::size_t, WholeRound> waiting_;  ///< rounds of which a part is missing
  mutable std::mutex stitched_mutex_;
  StitchedRounds stitched_;
  double last_seconds_ = 0.0;
  std::vector<double> last_bytes_;
};

}  // namespace pmoss::runtime
