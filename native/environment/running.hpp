// An index that runs on the analytic model: time goes in epochs, and slices move meanwhile.
//
// An epoch is piecewise constant: a piece ends where the data of a slice have arrived. The queries
// served are the sum of throughput times time over the pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analytic/model.hpp"
#include "machine/interference.hpp"
#include "machine/machine.hpp"
#include "machine/snapshot.hpp"

namespace pmoss::environment {

/// What is asked of the index in an epoch.
struct Asked {
  int shift = 0;      ///< slice i has the load that slice i - shift has in the instance
  double load = 1.0;  ///< of the queries that the load offers: open loads only
  int mix = 0;        ///< which of the mixes of queries that the index began with
  bool operator==(const Asked&) const = default;
};

/// What an epoch is like, beside the schedule.
struct Conditions {
  Interference interference;
  Asked asked;
};

/// A time in which nothing changes.
struct Piece {
  double seconds = 0, throughput = 0;  // million queries per second
};

/// What came of an epoch.
struct Epoch {
  double queries = 0;      ///< served, million
  double within = 0;       ///< of these, within the limit on the response time
  double moved_bytes = 0;  ///< copied
  std::vector<Piece> pieces;
  /// Means. While data are copied, counters are those of the middle piece, and response times are
  /// means of the two parts.
  Snapshot snapshot;
};

/// A moved slice changes its core at once. Its data follow, one copy after the other; until they
/// have arrived it is served from afar. Where it goes, none of its lines are cached at first.
class RunningIndex {
 public:
  /// The machine as it really is, bytes that move with each slice, and a limit on GB/s copied.
  /// Throws std::invalid_argument for an impossible machine.
  RunningIndex(Machine machine, std::vector<double> slice_bytes, double most_gb_per_s);

  /// Starts to run under a schedule, all data at their cores. `mixes`: profiles of one instance, of
  /// each mix of queries. Throws std::invalid_argument as the model does, and for a mix that does
  /// not exist. So it does for cores that are not as many as the slices, or that the machine lacks.
  void begin(analytic::Model& model, std::vector<analytic::SliceProfiles> mixes,
             const Conditions& conditions, std::span<const std::int32_t> cores);

  /// The same with the profiles of the last begin(), which take the most time. Throws
  /// std::invalid_argument as begin(), and before it.
  void begin_again(analytic::Model& model, const Conditions& conditions,
                   std::span<const std::int32_t> cores);

  /// Lets a slice be served by another core from now on; its data follow in the next epochs. Data
  /// that are on the way to another node begin anew. Throws std::invalid_argument for a slice or
  /// core that does not exist.
  void move(int slice, int core);

  /// One epoch. `limit_us` is on the response time; 0: none. Throws std::invalid_argument for
  /// impossible co-tenants, no time, a model without this index, and before begin(). Then the index
  /// is as before the call, which may be made again.
  Epoch run(analytic::Model& model, const Conditions& conditions, double seconds, double limit_us);

  /// Of each slice; the addresses never change.
  std::vector<std::int32_t>& cores() { return cores_; }
  std::vector<std::int32_t>& nodes() { return nodes_; }
  std::vector<double>& pending() { return pending_; }
  const std::vector<double>& slice_bytes() const { return slice_bytes_; }
  /// How many slices' data are still to be copied.
  std::size_t copies() const { return copies_.size(); }
  int shift() const { return asked_.shift; }

 private:
  struct Copy {
    int slice;
    double bytes;
  };
  /// What an epoch changes.
  struct Progress {
    std::vector<std::int32_t> nodes;
    std::vector<double> pending;  // share of each slice's data that is still to be copied
    std::vector<Copy> copies;
    std::vector<int> moved, unsettled;
    Asked asked;
  };

  std::size_t slices() const { return slice_bytes_.size(); }
  std::int32_t slot(int slice) const;
  std::int32_t node_of(std::int32_t core) const {
    return machine_.node_of_core[static_cast<std::size_t>(core)];
  }
  void check(std::span<const std::int32_t> cores) const;
  void start(analytic::Model& model, std::span<const std::int32_t> cores);
  void check(const Asked& asked) const;
  void ask(analytic::Model& model, const Asked& asked);
  void place(analytic::Model& model);
  void add_cold_lines(double seconds);
  double change(analytic::Model& model, const Copy* copy, std::vector<int> slices);
  Snapshot observe(const analytic::Model& model) const;
  double left(const Copy& copy) const;
  Epoch advance(analytic::Model& model, double seconds, double limit_us);
  Progress progress() const { return {nodes_, pending_, copies_, moved_, unsettled_, asked_}; }
  void go_back(const Progress& before);

  const Machine machine_;
  const std::vector<double> slice_bytes_;
  const double most_gb_per_s_;
  std::vector<std::int32_t> cores_, nodes_;
  std::vector<double> pending_;  // share of each slice's data that is still to be copied
  std::vector<analytic::SliceProfiles> mixes_;
  std::vector<Copy> copies_;
  std::vector<int> moved_, unsettled_;
  bool began_ = false;
  bool unplaced_ = false;  // the model was left in the middle of an epoch
  Asked asked_;
  Interference taken_;  // with what cold lines take
};

}  // namespace pmoss::environment
