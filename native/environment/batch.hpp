// A batch of spatial-scheduling episodes that advance together: the vector form of the environment
// (pmoss_env/envs/spatial/vector.py). An episode begins and ends in the environment itself, which
// draws, measures and adds noise; here lies every step between, with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "environment/team.hpp"

namespace pmoss::environment {

/// What tells the throughput of a schedule, in million queries per second.
class Oracle {
 public:
  virtual ~Oracle() = default;
  virtual double place(std::span<const std::int32_t> cores,
                       std::span<const std::int32_t> nodes) = 0;
  /// Moves one slice of the schedule at hand.
  virtual double move(int slice, int core, int node) = 0;
};

/// What all episodes of a batch have in common.
struct Task {
  int slices = 0;
  int counters = 0;
  int meta = 0;
  std::vector<std::int32_t> core_of_tile;  // negative where a tile has no core
  std::vector<std::int32_t> node_of_core;
  std::vector<std::uint8_t> worker_tiles;  // per tile
  /// [tile][rank]: the worker tiles from nearest to farthest, where an illegal action goes. Empty
  /// where an illegal action ends the episode.
  std::vector<std::int32_t> nearest;
  int max_slices_per_core = 0;  // 0: no limit
  int measure_every = 1;        // steps between questions to the oracle
  bool pays_improvement = true;
  bool full = true;  // with slice_view and incumbent_view

  std::size_t tiles() const { return core_of_tile.size(); }
  /// Throws std::invalid_argument that names the field.
  void check() const;
};

/// Arrays of observations, a row per environment. Not owned.
struct Observations {
  std::int8_t* view_mask = nullptr;      // [tile]
  std::int8_t* position_mask = nullptr;  // [tile]
  float* machine_view = nullptr;         // [tile][counter]
  float* meta = nullptr;
  float* slice = nullptr;
  float* slice_view = nullptr;      // [counter]; null unless full
  float* incumbent_view = nullptr;  // [tile][counter]; null unless full
};

/// Arrays of what else a step gives, an element per environment. Not owned.
struct Results {
  double* rewards = nullptr;
  bool* ended = nullptr;
  double* throughput = nullptr;
  std::int64_t* illegal_actions = nullptr;
  std::int64_t* slice = nullptr;  // the next one
  std::int64_t* tile = nullptr;   // where the latest one went; -1 at the start
};

/// How an episode begins.
struct Start {
  std::span<const float> counters;        // [slice][counter]
  std::span<const float> meta;            // as observed
  std::span<const float> incumbent_view;  // as observed; empty unless full
  std::span<const std::int32_t> order;
  std::span<const std::int32_t> cores, nodes;  // of the incumbent
  std::span<const double> readings;            // what each step's throughput is multiplied by
  double throughput = 0;
};

class Batch {
 public:
  /// An oracle per environment. The arrays must outlive the batch. Throws std::invalid_argument for
  /// an impossible task, no environment or no thread.
  Batch(Task task, std::vector<std::unique_ptr<Oracle>> oracles, Observations observations,
        Results results, int threads);

  std::size_t environments() const { return episodes_.size(); }

  /// Begins an episode; throws std::invalid_argument for a wrong length or an order that does not
  /// name each slice once.
  void start(std::size_t environment, const Start& start);

  /// One step of every environment but the resting ones, which stay as they are with reward 0.
  ///
  /// `ended` says whose episode is over. Its final throughput and reward are not known here: the
  /// reward is 0 and the throughput that of the latest reading.
  ///
  /// Where `copy` is given, the observations are written there too, all of them. Throws
  /// std::invalid_argument, and changes nothing, for a wrong length, a tile that does not exist or
  /// an episode that is over.
  void step(std::span<const std::int64_t> actions, std::span<const bool> resting,
            const Observations* copy);

  /// Writes all observations as they are.
  void observe(const Observations& copy) const;

  /// The tiles that this episode's slices went to so far, in order of the steps.
  std::span<const std::int32_t> placed(std::size_t environment) const;

 private:
  struct Episode {
    std::unique_ptr<Oracle> oracle;
    std::vector<float> counters;
    std::vector<std::int32_t> order, cores, nodes, tiles;
    std::vector<std::int32_t> load;  // per tile, slices placed in this episode
    std::vector<double> readings;
    int steps = 0;
    bool running = false;
  };

  void advance(std::size_t environment, std::size_t tile);
  std::size_t nearest_legal(std::size_t tile, const std::int8_t* legal) const;
  void show_next(std::size_t environment);
  void copy_rows(std::size_t begin, std::size_t end, const Observations& to) const;

  Task task_;
  std::vector<Episode> episodes_;
  Observations now_;
  Results results_;
  Team team_;
};

}  // namespace pmoss::environment
