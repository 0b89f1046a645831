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
/// every slice was and is. Compact: the next slice's counters and where every slice is, without
/// what stays the same for an episode or follows from it.
enum class Detail { paper, full, complete, compact };

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
  /// Per node, slices whose data it may hold; empty: no limit.
  std::vector<std::int32_t> max_slices_of_node;
  /// Whether an action names the node of the data too: tile * nodes + node. Otherwise the data go
  /// to the core's node.
  bool chooses_node = false;
  int measure_every = 1;  // steps between readings of the throughput
  Reward reward = Reward::improvement;
  Detail detail = Detail::full;

  std::size_t tiles() const { return core_of_tile.size(); }
  std::size_t nodes() const { return socket_of_node.size(); }
  std::size_t actions() const { return chooses_node ? tiles() * nodes() : tiles(); }
  /// Throws std::invalid_argument that names the field.
  void check() const;

 private:
  void check_room() const;
};

/// Arrays of observations, a row per environment or step. Not owned.
struct Observations {
  std::int8_t* view_mask = nullptr;      // [tile]; null if compact
  std::int8_t* position_mask = nullptr;  // [tile]
  float* machine_view = nullptr;         // [tile][counter]; null if compact
  float* meta = nullptr;                 // likewise
  float* slice = nullptr;
  // Null if paper.
  float* slice_view = nullptr;  // [counter]
  // Null unless full or complete.
  float* incumbent_view = nullptr;  // [tile][counter]
  // Null unless compact.
  std::int16_t* slice_places = nullptr;  // [slice], the action that would leave it where it is
  // Null unless complete.
  float* slice_counters = nullptr;          // [slice][counter]
  std::int32_t* incumbent_tiles = nullptr;  // [slice]
  std::int32_t* slice_tiles = nullptr;      // [slice]
  // Null unless actions choose nodes.
  std::int8_t* node_mask = nullptr;  // [node]
  float* node_room = nullptr;        // [node]
  float* node_view = nullptr;        // [node][counter]; null if compact, too
  // Null unless complete and actions choose nodes.
  std::int32_t* incumbent_nodes = nullptr;  // [slice]
  std::int32_t* slice_nodes = nullptr;      // [slice]

  /// The arrays from row `i` on.
  Observations row(std::size_t i, const Task& task) const;
  /// Writes the first `rows` of all arrays.
  void copy_to(const Observations& to, std::size_t rows, const Task& task) const;
};

/// Slices placed in an episode.
struct Load {
  std::vector<std::int32_t> tiles;  // on each tile
  std::vector<std::int32_t> nodes;  // with their data on each node
};

/// How far an episode has come.
struct Progress {
  std::span<const float> counters;  // [slice][counter], as observed
  std::span<const std::int32_t> order;
  // [slice]: its core and its data's node; read only where every slice's place is shown.
  std::span<const std::int32_t> incumbent, incumbent_nodes;
  Load load;
  std::size_t steps = 0;
};

/// Where an action puts a slice.
struct Place {
  std::size_t tile = 0;
  std::size_t node = 0;
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
  /// Throws std::invalid_argument unless there is a node of the machine for each slice.
  void check_nodes(const char* name, std::span<const std::int32_t> nodes) const;

  /// What an action says. Without a node, it is that of the tile's core, or 0 without a core.
  Place place_of(std::size_t action) const;
  /// What says a place.
  std::int16_t action_of(const Place& place) const;

  /// Writes the mask and the views before the first step; sets the progress to there.
  void begin(Progress& progress, const Observations& row) const;
  /// Places the next slice on a legal place.
  void place(Progress& progress, const Place& to, const Observations& row) const;
  /// Whether both masks of `row` allow a place.
  bool is_legal(const Place& place, const Observations& row) const;
  /// The masks alone, before the first step. `nodes` is null where actions do not choose nodes.
  void begin_mask(Load& load, std::int8_t* mask, std::int8_t* nodes) const;
  /// Counts one more slice. The masks forbid its core and its node once they are full.
  void fill_mask(Load& load, const Place& to, std::int8_t* mask, std::int8_t* nodes) const;
  /// [action]: legal where both masks are 1.
  void action_mask(const std::int8_t* mask, const std::int8_t* nodes, std::int8_t* actions) const;
  /// The next slice; `slices` when none is left.
  int next_slice(const Progress& progress) const;
  bool over(const Progress& progress) const { return progress.steps == progress.order.size(); }
  /// The legal tile nearest to an illegal one. A tile of the same node comes first, then of the
  /// same socket. Then the distance on the grid decides, then the lower number.
  std::size_t nearest_legal(std::size_t tile, const std::int8_t* legal) const;
  /// The legal node nearest to a full one: of the same socket first, then the lower number.
  std::size_t nearest_node(std::size_t node, const std::int8_t* legal) const;
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
  /// the same is not written: `meta`, `incumbent_view`, `slice_counters`, `incumbent_tiles` and
  /// `incumbent_nodes`.
  /// Throws std::invalid_argument for wrong lengths, a tile or a core that does not exist.
  void expand(std::span<const float> counters, std::span<const std::int32_t> order,
              std::span<const std::int32_t> incumbent,
              std::span<const std::int32_t> incumbent_nodes, std::span<const std::int32_t> actions,
              std::size_t steps, const Observations& rows) const;
  /// [step][action]: the masks of actions alone.
  void expand_masks(std::span<const std::int32_t> actions, std::size_t steps,
                    std::int8_t* masks) const;

 private:
  void show_next(const Progress& progress, const Observations& row) const;
  void show_room(const Load& load, const Observations& row) const;
  void check_steps(std::span<const std::int32_t> actions, std::size_t steps) const;

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
