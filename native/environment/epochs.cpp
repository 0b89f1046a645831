#include "environment/epochs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "counters/rates.hpp"
#include "environment/checks.hpp"
#include "environment/noise.hpp"

namespace pmoss::environment {
namespace {

// Finite upper bound of what observations hold.
constexpr double highest = 1e9;

/// Values of `last`: throughput, p50 and p99 in us, GB copied.
constexpr std::size_t last_values = 4;

float bounded(double value) {
  return static_cast<float>(std::isnan(value) ? 0.0 : std::min(value, highest));
}

/// A counter that the analytic model computes, and its column.
struct Column {
  double SliceRates::* rate;
  std::size_t at;
};

const std::vector<Column>& columns() {
  static const std::vector<Column> all = [] {
    std::vector<Column> result;
    for (const ComputedCounter& counter : computed_counters) {
      if (!counter.analytic) continue;
      const auto* const name = std::ranges::find(counter_names, counter.name);
      result.push_back({counter.rate, static_cast<std::size_t>(name - counter_names.begin())});
    }
    return result;
  }();
  return all;
}

}  // namespace

std::size_t EpochTask::meta() const {
  return 2 * size(nodes) + size(sockets) * size(sockets - 1) + facts.size();
}

EpochRows EpochRows::row(std::size_t environment, const EpochTask& task) const {
  const std::size_t slices = size(task.slices) * environment;
  EpochRows result = *this;
  result.slice_counters += slices * task.counters();
  result.core_counters += environment * task.tiles() * task.counters();
  result.meta += environment * task.meta();
  result.last += environment * last_values;
  result.slice_tiles += slices;
  result.slice_nodes += slices;
  result.pending += slices;
  result.moved += slices;
  result.slice_mask += slices + environment;
  result.epoch += environment;
  result.moves_left += environment;
  return result;
}

EpochBatch::EpochBatch(EpochTask task, std::size_t environments, EpochRows rows,
                       EpochResults results, int threads)
    : task_(std::move(task)),
      rows_(rows),
      results_(results),
      episodes_(environments),
      team_(threads) {
  if (environments == 0) refuse("no environments: a batch needs at least one");
  check_least("slices", task_.slices, 1);
  check_least("epochs", task_.epochs, 1);
  check_least("moves_per_epoch", task_.moves_per_epoch, 1);
  check_length("variations", task_.variations.size(), counter_names.size());
  check_length("seen", task_.observed.size(), counter_names.size());
  check_length("worker_tiles", task_.worker_tiles.size(), task_.tiles());
}

const EpochBatch::Episode& EpochBatch::episode(std::size_t environment) const {
  if (environment >= episodes_.size()) {
    refuse("environment " + std::to_string(environment) + ": there are " +
           std::to_string(episodes_.size()));
  }
  return episodes_[environment];
}

void EpochBatch::start(std::size_t environment, std::shared_ptr<Runs> runs,
                       std::vector<Conditions> course, std::uint64_t noise_seed) {
  static_cast<void>(episode(environment));
  check_length("course", course.size(), size(task_.epochs) + 1);
  check_length("cores of the index", runs->index().cores().size(), size(task_.slices));
  Episode& episode = episodes_[environment];
  episode.running = false;
  episode.runs = std::move(runs);
  episode.course = std::move(course);
  episode.noise_seed = noise_seed;
  episode.timeline.clear();
  episode.moves.clear();
  episode.cores = episode.runs->index().cores();
  results_.epoch[environment] = 0;
  results_.queries[environment] = results_.paid[environment] = 0.0;
  results_.rewards[environment] = 0.0;
  results_.truncated[environment] = false;
  results_.illegal_actions[environment] = 0;
  run(environment);
  show_round(environment);
  episode.running = true;
}

void EpochBatch::check(std::size_t environment, std::int64_t slice, std::int64_t tile,
                       bool rests) const {
  if (slice < 0 || slice > task_.slices || tile < 0 ||
      static_cast<std::size_t>(tile) >= task_.tiles()) {
    refuse("environment " + std::to_string(environment) + ": slice " + std::to_string(slice) +
           " and tile " + std::to_string(tile) + ": must be from 0 to " +
           std::to_string(task_.slices) + " and to " + std::to_string(task_.tiles() - 1));
  }
  if (!rests && !episodes_[environment].running) {
    refuse("environment " + std::to_string(environment) + ": no episode is running");
  }
}

void EpochBatch::step(std::span<const std::int64_t> actions, std::span<const bool> resting) {
  check_length("actions", actions.size(), 2 * episodes_.size());
  check_length("resting", resting.size(), episodes_.size());
  for (std::size_t i = 0; i < episodes_.size(); ++i) {
    check(i, actions[2 * i], actions[2 * i + 1], resting[i]);
  }
  team_.run(episodes_.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      results_.rewards[i] = 0.0;
      results_.truncated[i] = false;
      if (resting[i]) continue;
      advance(i, static_cast<std::size_t>(actions[2 * i]),
              static_cast<std::size_t>(actions[2 * i + 1]));
    }
  });
}

void EpochBatch::step_one(std::size_t environment, std::int64_t slice, std::int64_t tile) {
  static_cast<void>(episode(environment));
  check(environment, slice, tile, false);
  results_.rewards[environment] = 0.0;
  results_.truncated[environment] = false;
  advance(environment, static_cast<std::size_t>(slice), static_cast<std::size_t>(tile));
}

void EpochBatch::advance(std::size_t environment, std::size_t slice, std::size_t tile) {
  Episode& episode = episodes_[environment];
  if (slice < size(task_.slices)) {
    const EpochRows row = rows_.row(environment, task_);
    ++results_.moves[environment];
    if (row.slice_mask[slice] != 0 && task_.worker_tiles[tile] != 0) {
      episode.runs->index().move(static_cast<int>(slice), task_.core_of_tile[tile]);
      row.slice_mask[slice] = 0;
      row.slice_tiles[slice] = static_cast<std::int32_t>(tile);
      show_pending(environment);
    } else {
      ++results_.illegal_actions[environment];
    }
    const auto allowed_moves = static_cast<double>(task_.moves_per_epoch);
    const auto made = static_cast<double>(results_.moves[environment]);
    *row.moves_left = static_cast<float>((allowed_moves - made) / allowed_moves);
    if (results_.moves[environment] < task_.moves_per_epoch) return;
  }
  const std::int64_t epoch = ++results_.epoch[environment];
  run(environment);
  results_.queries[environment] += episode.last.queries;
  const double reward = episode.last.within - task_.price_per_gb * results_.moved_gb[environment];
  results_.rewards[environment] = reward;
  results_.paid[environment] += reward;
  results_.truncated[environment] = epoch >= task_.epochs;
  episode.running = epoch < task_.epochs;
  show_round(environment);
}

/// Runs an epoch and shows what came of it.
void EpochBatch::run(std::size_t environment) {
  Episode& episode = episodes_[environment];
  const EpochRows row = rows_.row(environment, task_);
  const std::vector<std::int32_t>& cores = episode.runs->index().cores();
  std::int32_t moved = 0;
  for (std::size_t s = 0; s < cores.size(); ++s) {
    row.moved[s] = cores[s] != episode.cores[s] ? 1 : 0;
    moved += row.moved[s];
  }
  episode.moves.push_back(moved);
  episode.cores = cores;
  const auto epoch = static_cast<std::size_t>(results_.epoch[environment]);
  episode.last = episode.runs->run(episode.course[epoch], task_.seconds, task_.limit_us);
  results_.throughput[environment] = episode.last.queries / task_.seconds;
  results_.p99_us[environment] = episode.last.snapshot.latency_p99_us;
  results_.moved_gb[environment] = episode.last.moved_bytes * 1e-9;
  episode.timeline.push_back(results_.throughput[environment]);
  show_epoch(environment);
}

/// What a new round of moves begins with.
void EpochBatch::show_round(std::size_t environment) {
  const EpochRows row = rows_.row(environment, task_);
  results_.moves[environment] = 0;
  std::fill_n(row.slice_mask, size(task_.slices) + 1, std::int8_t{1});
  *row.moves_left = 1.0F;
  *row.epoch = static_cast<float>(static_cast<double>(results_.epoch[environment]) /
                                  static_cast<double>(task_.epochs));
  RunningIndex& index = episodes_[environment].runs->index();
  for (std::size_t s = 0; s < size(task_.slices); ++s) {
    row.slice_tiles[s] = task_.tile_of_core[size(index.cores()[s])];
    row.slice_nodes[s] = index.nodes()[s];
  }
  show_pending(environment);
}

void EpochBatch::show_pending(std::size_t environment) {
  RunningIndex& index = episodes_[environment].runs->index();
  float* const pending = rows_.row(environment, task_).pending;
  std::ranges::transform(index.pending(), pending, [](double x) { return static_cast<float>(x); });
  results_.pending_slices[environment] = static_cast<std::int64_t>(index.copies());
}

/// The counters of the last epoch, with their noise.
void EpochBatch::show_epoch(std::size_t environment) {
  Episode& episode = episodes_[environment];
  const EpochRows row = rows_.row(environment, task_);
  const Snapshot& snapshot = episode.last.snapshot;
  const std::size_t counters = task_.counters(), slices = size(task_.slices);
  double throughput = snapshot.throughput;
  const bool noisy = task_.noise != 0.0;
  if (noisy) {
    const std::array seed{episode.noise_seed,
                          static_cast<std::uint64_t>(results_.epoch[environment])};
    NoiseStream noise(task_.noise, seed);
    episode.factors.resize(slices * counters);
    noise.factors(task_.variations, episode.factors);
    throughput *= noise.factor(task_.throughput_variation);
  }
  std::fill_n(row.slice_counters, slices * counters, 0.0F);
  episode.of_tiles.assign(task_.tiles() * counters, 0.0);
  for (const auto& [rate, column] : columns()) {
    if (task_.observed[column] == 0) continue;
    for (std::size_t s = 0; s < slices; ++s) {
      const std::size_t at = s * counters + column;
      const double value = snapshot.slices[s].*rate;
      const auto shown = static_cast<float>(noisy ? value * episode.factors[at] : value);
      row.slice_counters[at] = shown;
      const auto tile = size(task_.tile_of_core[size(episode.cores[s])]);
      episode.of_tiles[tile * counters + column] += static_cast<double>(shown);
    }
  }
  std::ranges::transform(episode.of_tiles, row.core_counters,
                         [](double sum) { return static_cast<float>(sum); });
  float* meta = row.meta;
  const auto put = [&](double value) {
    *meta++ = task_.sees_offcore ? static_cast<float>(value) : 0.0F;
  };
  std::ranges::for_each(snapshot.read_gb_per_s, put);
  std::ranges::for_each(snapshot.write_gb_per_s, put);
  const std::size_t sockets = size(task_.sockets);
  for (std::size_t link = 0; link < snapshot.link_gb_per_s.size(); ++link) {
    if (link / sockets != link % sockets) put(snapshot.link_gb_per_s[link]);
  }
  std::ranges::copy(task_.facts, meta);
  const std::array<double, last_values> last{
      throughput, snapshot.latency_p50_us, snapshot.latency_p99_us, results_.moved_gb[environment]};
  std::ranges::transform(last, row.last, bounded);
}

}  // namespace pmoss::environment
