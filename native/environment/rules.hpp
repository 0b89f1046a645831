// The rules of spatial scheduling (P-MOSS, section 6): which tiles are legal, where an illegal
// action goes, what placing a slice shows, what a step pays and when an episode ends. The
// environments step by them, and stored episodes are expanded by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pmoss::environment {

/// What a step pays, in million queries per second. Improvement: the throughput after the step
/// minus that before it. Slice: the slice's own share of the final throughput, known in hindsight
/// only. Terminal: the final throughput at the last step.
enum class Reward { improvement, slice, terminal };

/// What an observation holds. Paper: what P-MOSS shows. Full: with the counters of the next slice
/// and those of each tile under the incumbent. Complete: with those of every slice, and with where
/// every slice was and is.
enum class Detail { paper, full, complete };

/// What all episodes of one environment have in common.
struct Task {
  int slices = 0;
  int counters = 0;
  int meta = 0;
  int columns = 1;                         // tiles of a row of the grid
  std::vector<std::int32_t> core_of_tile;  // negative where a tile has no core
  std::vector<std::int32_t> node_of_core;
  std::vector<std::int32_t> socket_of_node;
  std::vector<std::uint8_t> worker_tiles;  // per tile
  bool remaps = true;           // an illegal action goes to the nearest legal tile; or ends all
  int max_slices_per_core = 0;  // 0: no limit
  int measure_every = 1;        // steps between readings of the throughput
  Reward reward = Reward::improvement;
  Detail detail = Detail::full;

  std::size_t tiles() const { return core_of_tile.size(); }
  /// Throws std::invalid_argument that names the field.
  void check() const;
};

/// Arrays of observations, a row per environment or step. Not owned.
struct Observations {
  std::int8_t* view_mask = nullptr;      // [tile]
  std::int8_t* position_mask = nullptr;  // [tile]
  float* machine_view = nullptr;         // [tile][counter]
  float* meta = nullptr;
  float* slice = nullptr;
  // Null unless full or complete.
  float* slice_view = nullptr;      // [counter]
  float* incumbent_view = nullptr;  // [tile][counter]
  // Null unless complete.
  float* slice_counters = nullptr;          // [slice][counter]
  std::int32_t* incumbent_tiles = nullptr;  // [slice]
  std::int32_t* slice_tiles = nullptr;      // [slice]

  /// The arrays from row `i` on.
  Observations row(std::size_t i, const Task& task) const;
};

/// How far an episode has come.
struct Progress {
  std::span<const float> counters;  // [slice][counter], as observed
  std::span<const std::int32_t> order;
  std::span<const std::int32_t> incumbent;  // [slice]: its core; read only where all is shown
  std::vector<std::int32_t> load;           // per tile, slices placed in this episode
  std::size_t steps = 0;
};

/// What is known of an episode that is over, in million queries per second.
struct Outcome {
  double incumbent = 0.0;
  double final = 0.0;
  std::span<const double> throughput;  // after each step
  std::span<const double> shares;      // of each slice under the final schedule
  std::span<const std::int32_t> order;
};

class Rules {
 public:
  /// Throws std::invalid_argument for an impossible task.
  explicit Rules(Task task);

  const Task& task() const { return task_; }

  /// Throws std::invalid_argument unless `order` names each slice once.
  void check_order(std::span<const std::int32_t> order) const;

  /// Throws std::invalid_argument unless there is a core of the machine for each slice.
  void check_cores(const char* name, std::span<const std::int32_t> cores) const;

  /// Writes the mask and the views before the first step; sets the progress to there.
  void begin(Progress& progress, const Observations& row) const;
  /// Places the next slice on a legal `tile`.
  void place(Progress& progress, std::size_t tile, const Observations& row) const;
  /// Begins the position mask alone, for `load` slices on each tile.
  void begin_mask(std::vector<std::int32_t>& load, std::int8_t* mask) const;
  /// Counts one more slice on `tile`; the mask forbids it once its core is full.
  void fill_mask(std::vector<std::int32_t>& load, std::size_t tile, std::int8_t* mask) const;
  /// The next slice; `slices` when none is left.
  int next_slice(const Progress& progress) const;
  bool over(const Progress& progress) const { return progress.steps == progress.order.size(); }
  /// The legal tile nearest to an illegal one. A tile of the same node comes first, then of the
  /// same socket. Then the distance on the grid decides, then the lower number.
  std::size_t nearest_legal(std::size_t tile, const std::int8_t* legal) const;
  /// [tile][counter]: the counters of all slices, where `cores` has them.
  void incumbent_view(std::span<const float> counters, std::span<const std::int32_t> cores,
                      float* view) const;
  /// [slice]: the tiles of `cores`.
  void tiles_of(std::span<const std::int32_t> cores, std::int32_t* tiles) const;
  /// Whether the throughput is read after so many steps.
  bool reads(std::size_t steps) const {
    return steps % static_cast<std::size_t>(task_.measure_every) == 0 ||
           steps == static_cast<std::size_t>(task_.slices);
  }
  /// What a step pays that changed the throughput so. Shares of slices are not known yet: with
  /// Reward::slice the last step pays for all.
  double live_reward(double before, double after, bool last) const;

  /// Everything that an episode showed, a row per step: the first `steps` of slices + 1. What stays
  /// the same is not written: `meta`, `incumbent_view`, `slice_counters` and `incumbent_tiles`.
  /// Throws std::invalid_argument for wrong lengths, a tile or a core that does not exist.
  void expand(std::span<const float> counters, std::span<const std::int32_t> order,
              std::span<const std::int32_t> incumbent, std::span<const std::int32_t> tiles,
              std::size_t steps, const Observations& rows) const;
  /// [step][tile]: the position masks alone.
  void expand_masks(std::span<const std::int32_t> tiles, std::size_t steps,
                    std::int8_t* masks) const;

 private:
  void show_next(const Progress& progress, const Observations& row) const;
  void check_steps(std::span<const std::int32_t> tiles, std::size_t steps) const;

  Task task_;
  std::vector<std::int32_t> tile_of_core_;
};

/// [step]: what each step of an episode pays in hindsight. Throws std::invalid_argument for wrong
/// lengths.
void rewards(Reward mode, const Outcome& outcome, std::span<double> result);

/// [step]: the sum of the rewards of this and all later steps. That of improvements telescopes: it
/// is taken without the rounding of the additions.
void returns_to_go(Reward mode, const Outcome& outcome, std::span<double> result);

}  // namespace pmoss::environment
