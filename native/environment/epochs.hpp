// Continual scheduling: many indexes that run, each with moves between its epochs. What a policy
// sees and is paid is the same for one environment alone and for one of many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "environment/running.hpp"
#include "environment/team.hpp"
#include "machine/snapshot.hpp"

namespace pmoss::environment {

/// What all environments of a batch have in common.
struct EpochTask {
  int slices = 0, nodes = 0, sockets = 0;
  int epochs = 0, moves_per_epoch = 0;
  double seconds = 1.0;       ///< length of an epoch
  double limit_us = 0.0;      ///< on response times; 0: none
  double price_per_gb = 0.0;  ///< million queries per copied GB
  double noise = 0.0;         ///< strength
  double throughput_variation = 0.0;
  std::vector<double> variations;          ///< of each counter, by counter_names
  std::vector<std::uint8_t> observed;      ///< likewise: whether observations hold it
  bool sees_offcore = true;                ///< memories and links
  std::vector<float> facts;                ///< the end of `meta`
  std::vector<std::int32_t> core_of_tile;  ///< -1: no core
  std::vector<std::int32_t> tile_of_core;
  std::vector<std::uint8_t> worker_tiles;

  std::size_t tiles() const { return core_of_tile.size(); }
  std::size_t counters() const { return variations.size(); }
  std::size_t meta() const;
};

/// Arrays with a row per environment. Not owned.
struct EpochRows {
  float *slice_counters, *core_counters, *meta, *last;
  std::int32_t *slice_tiles, *slice_nodes;
  float* pending;
  std::int8_t *moved, *slice_mask;
  float *epoch, *moves_left;

  EpochRows row(std::size_t environment, const EpochTask& task) const;
};

/// What else a step gives, an element per environment. Not owned.
struct EpochResults {
  double *rewards, *queries, *paid, *throughput, *p99_us, *moved_gb;
  bool* truncated;
  std::int64_t *epoch, *moves, *illegal_actions, *pending_slices;
};

/// An index that runs, with its model.
class Runs {
 public:
  Runs() = default;
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;
  virtual ~Runs() = default;
  virtual RunningIndex& index() = 0;
  /// As RunningIndex::run().
  virtual Epoch run(const Conditions& conditions, double seconds, double limit_us) = 0;
};

class EpochBatch {
 public:
  /// The arrays must outlive the batch. Throws std::invalid_argument for lengths that do not fit,
  /// no environment or no thread.
  EpochBatch(EpochTask task, std::size_t environments, EpochRows rows, EpochResults results,
             int threads);

  std::size_t environments() const { return episodes_.size(); }
  const EpochTask& task() const { return task_; }

  /// Begins an episode of an index that has begun to run, and runs epoch 0. `course`: of each
  /// epoch, from 0. Throws std::invalid_argument for a course or an index of another length.
  void start(std::size_t environment, std::shared_ptr<Runs> runs, std::vector<Conditions> course,
             std::uint64_t noise_seed);

  /// One step of every environment but the resting ones, which stay as they are with reward 0.
  /// `actions`: [environment][slice, tile]; the last slice index lets the epoch begin. Throws
  /// std::invalid_argument, and changes nothing, for an action that does not exist or an episode
  /// that is over.
  void step(std::span<const std::int64_t> actions, std::span<const bool> resting);
  /// One step of one environment.
  void step_one(std::size_t environment, std::int64_t slice, std::int64_t tile);

  /// Of the last epoch, as it was.
  const Epoch& epoch(std::size_t environment) const { return episode(environment).last; }
  /// [slice]: that served in the last epoch.
  std::span<const std::int32_t> cores(std::size_t environment) const {
    return episode(environment).cores;
  }
  /// Mq/s of epoch 0 and all since.
  std::span<const double> timeline(std::size_t environment) const {
    return episode(environment).timeline;
  }
  /// Likewise: how many slices moved before each.
  std::span<const std::int32_t> moves(std::size_t environment) const {
    return episode(environment).moves;
  }

 private:
  struct Episode {
    std::shared_ptr<Runs> runs;
    std::vector<Conditions> course;
    std::uint64_t noise_seed = 0;
    Epoch last;
    std::vector<std::int32_t> cores, moves;
    std::vector<double> timeline;
    bool running = false;
    std::vector<double> factors, of_tiles;  // room for took_place()
  };

  const Episode& episode(std::size_t environment) const;
  void check(std::size_t environment, std::int64_t slice, std::int64_t tile, bool rests) const;
  void advance(std::size_t environment, std::size_t slice, std::size_t tile);
  void run(std::size_t environment);
  void show_round(std::size_t environment);
  void show_pending(std::size_t environment);
  void show_epoch(std::size_t environment);

  const EpochTask task_;
  const EpochRows rows_;
  const EpochResults results_;
  std::vector<Episode> episodes_;
  Team team_;
};

}  // namespace pmoss::environment
