#include "environment/batch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace pmoss::environment {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw std::invalid_argument(text); }

void check_length(const char* name, std::size_t length, std::size_t expected) {
  if (length != expected) {
    refuse("length of " + std::string(name) + " = " + std::to_string(length) + ": must be " +
           std::to_string(expected));
  }
}

void check_least(const char* name, int value, int least) {
  if (value < least) {
    refuse(std::string(name) + " = " + std::to_string(value) + ": must be at least " +
           std::to_string(least));
  }
}

std::size_t size(int value) { return static_cast<std::size_t>(value); }

Task checked(Task task) {
  task.check();
  return task;
}

template <typename T>
void copy(const T* from, T* to, std::size_t row, std::size_t begin, std::size_t end) {
  std::copy(from + begin * row, from + end * row, to + begin * row);
}

}  // namespace

void Task::check() const {
  check_least("slices", slices, 1);
  check_least("counters", counters, 1);
  check_least("meta", meta, 0);
  check_least("max_slices_per_core", max_slices_per_core, 0);
  check_least("measure_every", measure_every, 1);
  check_length("worker_tiles", worker_tiles.size(), tiles());
  const auto cores = static_cast<std::int32_t>(node_of_core.size());
  std::size_t workers = 0;
  for (std::size_t t = 0; t < tiles(); ++t) {
    if (core_of_tile[t] >= cores) {
      refuse("core_of_tile: core " + std::to_string(core_of_tile[t]) + " does not exist");
    }
    if (worker_tiles[t] == 0) continue;
    ++workers;
    if (core_of_tile[t] < 0) refuse("worker_tiles: tile " + std::to_string(t) + " has no core");
  }
  if (workers == 0) refuse("worker_tiles: at least one tile must take slices");
  if (max_slices_per_core != 0 && size(max_slices_per_core) * workers < size(slices)) {
    refuse("max_slices_per_core = " + std::to_string(max_slices_per_core) +
           ": leaves no room for all slices");
  }
  if (nearest.empty()) return;
  check_length("nearest", nearest.size(), tiles() * workers);
  for (const std::int32_t tile : nearest) {
    if (tile < 0 || static_cast<std::size_t>(tile) >= tiles()) {
      refuse("nearest: tile " + std::to_string(tile) + " does not exist");
    }
  }
}

Batch::Batch(Task task, std::vector<std::unique_ptr<Oracle>> oracles, Observations observations,
             Results results, int threads)
    : task_(checked(std::move(task))),
      episodes_(oracles.size()),
      now_(observations),
      results_(results),
      team_(threads) {
  if (oracles.empty()) refuse("no environments: a batch needs at least one");
  const std::size_t slices = size(task_.slices);
  for (std::size_t i = 0; i < oracles.size(); ++i) {
    Episode& episode = episodes_[i];
    episode.oracle = std::move(oracles[i]);
    episode.counters.resize(slices * size(task_.counters));
    for (auto* places : {&episode.order, &episode.cores, &episode.nodes, &episode.tiles}) {
      places->resize(slices);
    }
    episode.load.resize(task_.tiles());
    episode.readings.resize(slices);
  }
}

void Batch::start(std::size_t environment, const Start& start) {
  const std::size_t slices = size(task_.slices);
  const std::size_t views = task_.tiles() * size(task_.counters);
  if (environment >= episodes_.size()) {
    refuse("environment " + std::to_string(environment) + ": there are " +
           std::to_string(episodes_.size()));
  }
  check_length("counters", start.counters.size(), slices * size(task_.counters));
  check_length("meta", start.meta.size(), size(task_.meta));
  check_length("incumbent_view", start.incumbent_view.size(), task_.full ? views : 0);
  check_length("order", start.order.size(), slices);
  check_length("cores", start.cores.size(), slices);
  check_length("nodes", start.nodes.size(), slices);
  check_length("readings", start.readings.size(), slices);
  std::vector<bool> named(slices, false);
  for (const std::int32_t slice : start.order) {
    if (slice < 0 || slice >= task_.slices || named[size(slice)]) {
      refuse("order: must name each slice exactly once");
    }
    named[size(slice)] = true;
  }

  Episode& episode = episodes_[environment];
  std::ranges::copy(start.counters, episode.counters.begin());
  std::ranges::copy(start.order, episode.order.begin());
  std::ranges::copy(start.cores, episode.cores.begin());
  std::ranges::copy(start.nodes, episode.nodes.begin());
  std::ranges::copy(start.readings, episode.readings.begin());
  std::ranges::fill(episode.load, 0);
  episode.steps = 0;
  episode.running = true;

  const std::size_t tiles = task_.tiles();
  std::fill_n(now_.view_mask + environment * tiles, tiles, std::int8_t{0});
  std::transform(task_.worker_tiles.begin(), task_.worker_tiles.end(),
                 now_.position_mask + environment * tiles,
                 [](std::uint8_t worker) { return static_cast<std::int8_t>(worker != 0); });
  std::fill_n(now_.machine_view + environment * views, views, 0.0F);
  std::ranges::copy(start.meta, now_.meta + environment * size(task_.meta));
  if (task_.full) {
    std::ranges::copy(start.incumbent_view, now_.incumbent_view + environment * views);
  }
  results_.rewards[environment] = 0.0;
  results_.ended[environment] = false;
  results_.throughput[environment] = start.throughput;
  results_.illegal_actions[environment] = 0;
  results_.tile[environment] = -1;
  show_next(environment);
}

void Batch::step(std::span<const std::int64_t> actions, std::span<const bool> resting,
                 const Observations* copy) {
  check_length("actions", actions.size(), episodes_.size());
  check_length("resting", resting.size(), episodes_.size());
  for (std::size_t i = 0; i < episodes_.size(); ++i) {
    if (actions[i] < 0 || static_cast<std::size_t>(actions[i]) >= task_.tiles()) {
      refuse("environment " + std::to_string(i) + ": action " + std::to_string(actions[i]) +
             ": tiles are 0 to " + std::to_string(task_.tiles() - 1));
    }
    if (!resting[i] && !episodes_[i].running) {
      refuse("environment " + std::to_string(i) + ": no episode is running");
    }
  }
  team_.run(episodes_.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (resting[i]) {
        results_.rewards[i] = 0.0;
        results_.ended[i] = false;
      } else {
        advance(i, static_cast<std::size_t>(actions[i]));
      }
    }
    if (copy != nullptr) copy_rows(begin, end, *copy);
  });
}

void Batch::observe(const Observations& copy) const { copy_rows(0, episodes_.size(), copy); }

std::span<const std::int32_t> Batch::placed(std::size_t environment) const {
  const Episode& episode = episodes_.at(environment);
  return {episode.tiles.data(), size(episode.steps)};
}

void Batch::advance(std::size_t environment, std::size_t tile) {
  Episode& episode = episodes_[environment];
  const std::size_t tiles = task_.tiles();
  const std::size_t counters = size(task_.counters);
  std::int8_t* const legal = now_.position_mask + environment * tiles;
  results_.rewards[environment] = 0.0;
  results_.ended[environment] = false;
  if (legal[tile] == 0) {
    ++results_.illegal_actions[environment];
    if (task_.nearest.empty()) {
      results_.ended[environment] = true;
      episode.running = false;
      return;
    }
    tile = nearest_legal(tile, legal);
  }

  const int slice = episode.order[size(episode.steps)];
  const int core = task_.core_of_tile[tile];
  const int node = task_.node_of_core[size(core)];
  now_.view_mask[environment * tiles + tile] = 1;
  float* const view = now_.machine_view + (environment * tiles + tile) * counters;
  const float* const added = episode.counters.data() + size(slice) * counters;
  for (std::size_t k = 0; k < counters; ++k) view[k] += added[k];
  if (++episode.load[tile] == task_.max_slices_per_core) legal[tile] = 0;
  episode.cores[size(slice)] = core;
  episode.nodes[size(slice)] = node;
  episode.tiles[size(episode.steps)] = static_cast<std::int32_t>(tile);
  ++episode.steps;
  results_.tile[environment] = static_cast<std::int64_t>(tile);
  if (episode.steps == task_.slices) {
    results_.ended[environment] = true;
    episode.running = false;
  } else if (episode.steps % task_.measure_every == 0) {
    const double measured = task_.measure_every == 1
                                ? episode.oracle->move(slice, core, node)
                                : episode.oracle->place(episode.cores, episode.nodes);
    const double before = results_.throughput[environment];
    const double after = measured * episode.readings[size(episode.steps - 1)];
    if (task_.pays_improvement) results_.rewards[environment] = after - before;
    results_.throughput[environment] = after;
  }
  show_next(environment);
}

std::size_t Batch::nearest_legal(std::size_t tile, const std::int8_t* legal) const {
  const std::size_t workers = task_.nearest.size() / task_.tiles();
  const std::span ranked(task_.nearest.data() + tile * workers, workers);
  // While a slice is left to place there is room: the constraint was checked against all of them.
  return size(*std::ranges::find_if(ranked, [&](int t) { return legal[size(t)] != 0; }));
}

void Batch::show_next(std::size_t environment) {
  const Episode& episode = episodes_[environment];
  const std::size_t counters = size(task_.counters);
  const bool over = episode.steps == task_.slices;
  const int slice = over ? task_.slices : episode.order[size(episode.steps)];
  results_.slice[environment] = slice;
  // The quotient in double, as in Python.
  now_.slice[environment] =
      static_cast<float>(static_cast<double>(slice) / static_cast<double>(task_.slices));
  if (!task_.full) return;
  float* const view = now_.slice_view + environment * counters;
  if (over) {
    std::fill_n(view, counters, 0.0F);
  } else {
    std::copy_n(episode.counters.data() + size(slice) * counters, counters, view);
  }
}

void Batch::copy_rows(std::size_t begin, std::size_t end, const Observations& to) const {
  const std::size_t tiles = task_.tiles();
  const std::size_t counters = size(task_.counters);
  copy(now_.view_mask, to.view_mask, tiles, begin, end);
  copy(now_.position_mask, to.position_mask, tiles, begin, end);
  copy(now_.machine_view, to.machine_view, tiles * counters, begin, end);
  copy(now_.meta, to.meta, size(task_.meta), begin, end);
  copy(now_.slice, to.slice, 1, begin, end);
  if (!task_.full) return;
  copy(now_.slice_view, to.slice_view, counters, begin, end);
  copy(now_.incumbent_view, to.incumbent_view, tiles * counters, begin, end);
}

}  // namespace pmoss::environment
