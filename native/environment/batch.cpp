#include "environment/batch.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "analytic/model.hpp"
#include "environment/checks.hpp"

namespace pmoss::environment {

Batch::Batch(Rules rules, std::vector<std::unique_ptr<ThroughputSource>> sources,
             Observations observations, Results results, int threads)
    : rules_(std::move(rules)),
      episodes_(sources.size()),
      now_(observations),
      results_(results),
      team_(threads, [this] { return prepare_one(); }) {
  if (sources.empty()) refuse("no environments: a batch needs at least one");
  const Task& task = rules_.task();
  const std::size_t slices = size(task.slices);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Episode& episode = episodes_[i];
    episode.source = std::move(sources[i]);
    episode.counters.resize(slices * size(task.counters));
    for (auto* places : {&episode.order, &episode.incumbent, &episode.incumbent_nodes,
                         &episode.cores, &episode.nodes, &episode.tiles}) {
      places->resize(slices);
    }
    episode.progress.counters = episode.counters;
    episode.progress.order = episode.order;
    episode.progress.incumbent = episode.incumbent;
    episode.progress.incumbent_nodes = episode.incumbent_nodes;
    episode.readings.resize(slices);
  }
}

Snapshot open(analytic::Model& model, const Opening& opening) {
  if (opening.taken == nullptr) {
    if (opening.profiles) refuse("co-tenants: must be given with another instance");
  } else if (opening.profiles) {
    model.set_instance(opening.profiles(), *opening.taken);
  } else {
    model.set_co_tenants(*opening.taken);
  }
  model.place({opening.cores, opening.nodes});
  return model.snapshot();
}

void Batch::check_openings(std::span<const Opening> openings) const {
  std::vector<bool> named(episodes_.size());
  for (const Opening& opening : openings) {
    const std::string name = "environment " + std::to_string(opening.environment);
    if (!episode(opening.environment).source) refuse(name + ": has no model to ask");
    if (named[opening.environment]) refuse(name + ": comes twice");
    named[opening.environment] = true;
  }
}

std::vector<Snapshot> Batch::open(std::span<const Opening> openings) {
  check_openings(openings);
  std::vector<Snapshot> result(openings.size());
  team_.run(openings.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) result[i] = open_one(openings[i]);
  });
  return result;
}

Snapshot Batch::open_one(const Opening& opening) {
  Episode& episode = episodes_[opening.environment];
  if (!withdraw(episode.next) || !opening.prepared) return episode.source->open(opening);
  if (episode.next.error) std::rethrow_exception(episode.next.error);
  return episode.source->take();
}

/// Takes a next episode back from the threads. True if it is ready; waits if one is at it.
bool Batch::withdraw(Next& next) {
  Stage stage = Stage::waiting;
  if (next.stage.compare_exchange_strong(stage, Stage::none)) {
    --waiting_;
    return false;
  }
  if (stage == Stage::none) return false;
  next.stage.wait(Stage::running);
  next.stage = Stage::none;
  return true;
}

void Batch::prepare(std::vector<Opening> openings) {
  check_openings(openings);
  for (const Opening& opening : openings) {
    if (opening.profiles && opening.taken != nullptr && opening.owned) continue;
    refuse("environment " + std::to_string(opening.environment) +
           ": what is prepared needs profiles and co-tenants of its own");
  }
  team_.check_forks();
  if (!team_.has_others()) return;
  for (Opening& opening : openings) {
    Next& next = episodes_[opening.environment].next;
    static_cast<void>(withdraw(next));
    next.opening = std::move(opening);
    next.error = nullptr;
    ++waiting_;
    next.stage = Stage::waiting;
  }
  team_.wake();
}

/// Prepares a next episode that no thread has begun. False if there is none.
bool Batch::prepare_one() noexcept {
  if (waiting_ == 0) return false;
  for (Episode& episode : episodes_) {
    Next& next = episode.next;
    Stage stage = Stage::waiting;
    if (!next.stage.compare_exchange_strong(stage, Stage::running)) continue;
    --waiting_;
    try {
      episode.source->prepare(next.opening);
    } catch (...) {
      next.error = std::current_exception();
    }
    next.stage = Stage::ready;
    next.stage.notify_all();
    return true;
  }
  return false;
}

void Batch::start(std::size_t environment, const Start& start) {
  const Task& task = rules_.task();
  const std::size_t slices = size(task.slices);
  static_cast<void>(episode(environment));
  check_length("counters", start.counters.size(), slices * size(task.counters));
  check_length("meta", start.meta.size(), size(task.meta));
  check_length("readings", start.readings.size(), slices);
  rules_.check_order(start.order);
  rules_.check_cores("cores", start.cores);
  rules_.check_nodes("nodes", start.nodes);

  Episode& episode = episodes_[environment];
  std::ranges::copy(start.counters, episode.counters.begin());
  std::ranges::copy(start.order, episode.order.begin());
  std::ranges::copy(start.cores, episode.incumbent.begin());
  std::ranges::copy(start.cores, episode.cores.begin());
  std::ranges::copy(start.nodes, episode.incumbent_nodes.begin());
  std::ranges::copy(start.nodes, episode.nodes.begin());
  std::ranges::copy(start.readings, episode.readings.begin());
  episode.read_at = 0;
  episode.running = true;

  const Observations row = now_.row(environment, task);
  rules_.begin(episode.progress, row);
  if (row.meta != nullptr) std::ranges::copy(start.meta, row.meta);
  if (row.incumbent_view != nullptr) {
    rules_.incumbent_view(start.counters, start.cores, row.incumbent_view);
  }
  if (row.slice_counters != nullptr) {
    std::ranges::copy(start.counters, row.slice_counters);
    rules_.tiles_of(start.cores, row.incumbent_tiles);
  }
  if (row.incumbent_nodes != nullptr) std::ranges::copy(start.nodes, row.incumbent_nodes);
  results_.rewards[environment] = 0.0;
  results_.ended[environment] = false;
  results_.throughput[environment] = start.throughput;
  results_.illegal_actions[environment] = 0;
  results_.slice[environment] = rules_.next_slice(episode.progress);
  results_.tile[environment] = -1;
  results_.node[environment] = -1;
}

void Batch::check_action(std::size_t environment, std::int64_t action) const {
  const std::size_t actions = rules_.task().actions();
  if (action < 0 || static_cast<std::size_t>(action) >= actions) {
    refuse("environment " + std::to_string(environment) + ": action " + std::to_string(action) +
           ": " + (rules_.task().chooses_node ? "actions" : "tiles") + " are 0 to " +
           std::to_string(actions - 1));
  }
}

void Batch::step(std::span<const std::int64_t> actions, std::span<const bool> resting,
                 const Observations* copy) {
  check_length("actions", actions.size(), episodes_.size());
  check_length("resting", resting.size(), episodes_.size());
  for (std::size_t i = 0; i < episodes_.size(); ++i) {
    check_action(i, actions[i]);
    if (!resting[i] && !episodes_[i].running) {
      refuse("environment " + std::to_string(i) + ": no episode is running");
    }
  }
  // What a step has copied last is still in the cache, and is what the next one begins with.
  backwards_ = !backwards_;
  const auto advance_part = [&](std::size_t begin, std::size_t end) {
    for (std::size_t done = 0; done < end - begin; done += together) {
      const std::size_t count = std::min(together, end - begin - done);
      const std::size_t first = backwards_ ? end - done - count : begin + done;
      const std::size_t left = end - begin - done - count;
      for (std::size_t k = 0; k < std::min(together, left); ++k) {
        const std::size_t i = backwards_ ? first - 1 - k : first + count + k;
        fetch(i, static_cast<std::size_t>(actions[i]));
      }
      for (std::size_t i = first; i < first + count; ++i) {
        if (resting[i]) {
          results_.rewards[i] = 0.0;
          results_.ended[i] = false;
        } else {
          advance(i, static_cast<std::size_t>(actions[i]));
        }
      }
      if (copy != nullptr) copy_rows(first, count, *copy);
    }
  };
  if (is_short(resting, copy != nullptr)) {
    team_.check_forks();
    advance_part(0, episodes_.size());
  } else {
    team_.run(episodes_.size(), advance_part);
  }
}

/// Whether a step takes less than to wake a thread for it: no model is asked, and little is copied.
bool Batch::is_short(std::span<const bool> resting, bool copies) const noexcept {
  constexpr std::size_t most_floats = 1U << 17U;  // of views
  const Task& task = rules_.task();
  if (copies && now_.machine_view != nullptr &&
      episodes_.size() * task.tiles() * size(task.counters) > most_floats) {
    return false;
  }
  for (std::size_t i = 0; i < episodes_.size(); ++i) {
    const Episode& episode = episodes_[i];
    if (!resting[i] && episode.source && rules_.reads(episode.progress.steps + 1)) return false;
  }
  return true;
}

void Batch::fetch(std::size_t environment, std::size_t action) const noexcept {
  const Episode& episode = episodes_[environment];
  if (!episode.running) return;
  const Progress& progress = episode.progress;
  const std::size_t width = size(rules_.task().counters);
  const auto fetch_row = [width](const float* rows, std::size_t row) {
    constexpr std::size_t line = 64 / sizeof *rows;
    for (std::size_t at = 0; at < width; at += line) __builtin_prefetch(rows + row * width + at);
    __builtin_prefetch(rows + row * width + width - 1);
  };
  const std::size_t tile = rules_.place_of(action).tile;
  const std::size_t slice = size(progress.order[progress.steps]);
  if (now_.machine_view != nullptr) {
    fetch_row(now_.machine_view, environment * rules_.task().tiles() + tile);
  }
  fetch_row(progress.counters.data(), slice);
  if (progress.steps + 1 < progress.order.size()) {
    fetch_row(progress.counters.data(), size(progress.order[progress.steps + 1]));
  }
  __builtin_prefetch(&episode.cores[slice], 1);
  __builtin_prefetch(&episode.nodes[slice], 1);
  __builtin_prefetch(&episode.tiles[progress.steps], 1);
  __builtin_prefetch(&progress.load.tiles[tile], 1);
}

bool Batch::step_one(std::size_t environment, std::int64_t action) {
  const Episode& episode = this->episode(environment);
  check_action(environment, action);
  if (!episode.running) {
    refuse("environment " + std::to_string(environment) + ": no episode is running");
  }
  advance(environment, static_cast<std::size_t>(action));
  return results_.ended[environment] ||
         (episode.read_at < episode.progress.steps && rules_.reads(episode.progress.steps));
}

void Batch::advance(std::size_t environment, std::size_t action) {
  const Task& task = rules_.task();
  const Observations row = now_.row(environment, task);
  Episode& episode = episodes_[environment];
  results_.rewards[environment] = 0.0;
  results_.ended[environment] = false;
  Place to = rules_.place_of(action);
  if (!rules_.is_legal(to, row)) {
    ++results_.illegal_actions[environment];
    if (!task.remaps) {
      results_.ended[environment] = true;
      episode.running = false;
      return;
    }
    if (row.position_mask[to.tile] == 0) {
      to.tile = rules_.nearest_legal(to.tile, row.position_mask);
      if (row.node_mask == nullptr) to = rules_.place_of(to.tile);
    }
    if (row.node_mask != nullptr && row.node_mask[to.node] == 0) {
      to.node = rules_.nearest_node(to.node, row.node_mask);
    }
  }

  const int slice = rules_.next_slice(episode.progress);
  const int core = task.core_of_tile[to.tile];
  const int node = static_cast<int>(to.node);
  episode.cores[size(slice)] = core;
  episode.nodes[size(slice)] = node;
  episode.tiles[episode.progress.steps] = static_cast<std::int32_t>(to.tile);
  rules_.place(episode.progress, to, row);
  results_.tile[environment] = static_cast<std::int64_t>(to.tile);
  results_.node[environment] = node;
  results_.slice[environment] = rules_.next_slice(episode.progress);
  if (rules_.over(episode.progress)) {
    results_.ended[environment] = true;
    episode.running = false;
  }
  if (episode.source && rules_.reads(episode.progress.steps)) {
    read(environment, task.measure_every == 1
                          ? episode.source->move(slice, core, node)
                          : episode.source->place(episode.cores, episode.nodes));
  }
}

void Batch::read(std::size_t environment, double throughput) {
  static_cast<void>(episode(environment));
  Episode& episode = episodes_[environment];
  const std::size_t steps = episode.progress.steps;
  if (episode.read_at >= steps) return;
  const double before = results_.throughput[environment];
  const double after = throughput * episode.readings[steps - 1];
  const bool last = rules_.over(episode.progress);
  // An episode that an illegal action ended pays nothing.
  if (episode.running || last) {
    results_.rewards[environment] = rules_.live_reward(before, after, last);
  }
  results_.throughput[environment] = after;
  episode.read_at = steps;
}

const Batch::Episode& Batch::episode(std::size_t environment) const {
  if (environment >= episodes_.size()) {
    refuse("environment " + std::to_string(environment) + ": there are " +
           std::to_string(episodes_.size()));
  }
  return episodes_[environment];
}

std::span<const std::int32_t> Batch::placed(std::size_t environment) const {
  const Episode& episode = this->episode(environment);
  return std::span(episode.tiles).first(episode.progress.steps);
}

std::span<const std::int32_t> Batch::cores(std::size_t environment) const {
  return episode(environment).cores;
}

std::span<const std::int32_t> Batch::nodes(std::size_t environment) const {
  return episode(environment).nodes;
}

void Batch::observe(const Observations& copy) const { copy_rows(0, episodes_.size(), copy); }

void Batch::observe_one(std::size_t environment, const Observations& to) const {
  static_cast<void>(episode(environment));
  now_.row(environment, rules_.task()).copy_to(to, 1, rules_.task());
}

void Batch::copy_rows(std::size_t first, std::size_t count, const Observations& to) const {
  const Task& task = rules_.task();
  now_.row(first, task).copy_to(to.row(first, task), count, task);
}

}  // namespace pmoss::environment
