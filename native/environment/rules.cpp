#include "environment/rules.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>

#include "environment/checks.hpp"

namespace pmoss::environment {
namespace {

Task checked(Task task) {
  task.check();
  return task;
}

double paid(Reward mode, double before, double after, bool last) {
  if (mode == Reward::improvement) return after - before;
  return last ? after : 0.0;
}

}  // namespace

void Task::check() const {
  check_least("slices", slices, 1);
  check_least("counters", counters, 1);
  check_least("meta", meta, 0);
  check_least("columns", columns, 1);
  check_least("max_slices_per_core", max_slices_per_core, 0);
  check_least("measure_every", measure_every, 1);
  check_length("worker_tiles", worker_tiles.size(), tiles());
  const auto cores = static_cast<std::int32_t>(node_of_core.size());
  for (const std::int32_t node : node_of_core) {
    if (node < 0 || size(node) >= socket_of_node.size()) {
      refuse("node_of_core: node " + std::to_string(node) + " does not exist");
    }
  }
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
}

Observations Observations::row(std::size_t i, const Task& task) const {
  const std::size_t tiles = task.tiles();
  const std::size_t counters = size(task.counters);
  Observations result = *this;
  result.view_mask += i * tiles;
  result.position_mask += i * tiles;
  result.machine_view += i * tiles * counters;
  if (meta != nullptr) result.meta += i * size(task.meta);
  result.slice += i;
  if (slice_view != nullptr) result.slice_view += i * counters;
  if (incumbent_view != nullptr) result.incumbent_view += i * tiles * counters;
  const std::size_t slices = size(task.slices);
  if (slice_counters != nullptr) result.slice_counters += i * slices * counters;
  if (incumbent_tiles != nullptr) result.incumbent_tiles += i * slices;
  if (slice_tiles != nullptr) result.slice_tiles += i * slices;
  return result;
}

Rules::Rules(Task task) : task_(checked(std::move(task))) {
  tile_of_core_.assign(task_.node_of_core.size(), -1);
  for (std::size_t t = 0; t < task_.tiles(); ++t) {
    const std::int32_t core = task_.core_of_tile[t];
    if (core >= 0) tile_of_core_[size(core)] = static_cast<std::int32_t>(t);
  }
}

void Rules::check_order(std::span<const std::int32_t> order) const {
  check_length("order", order.size(), size(task_.slices));
  std::vector<bool> named(order.size(), false);
  for (const std::int32_t slice : order) {
    if (slice < 0 || slice >= task_.slices || named[size(slice)]) {
      refuse("order: must name each slice exactly once");
    }
    named[size(slice)] = true;
  }
}

void Rules::check_cores(const char* name, std::span<const std::int32_t> cores) const {
  check_length(name, cores.size(), size(task_.slices));
  for (const std::int32_t core : cores) {
    if (core < 0 || size(core) >= task_.node_of_core.size()) {
      refuse(std::string(name) + ": core " + std::to_string(core) + " does not exist");
    }
  }
}

void Rules::begin(Progress& progress, const Observations& row) const {
  progress.steps = 0;
  begin_mask(progress.load, row.position_mask);
  std::fill_n(row.view_mask, task_.tiles(), std::int8_t{0});
  std::fill_n(row.machine_view, task_.tiles() * size(task_.counters), 0.0F);
  if (row.slice_tiles != nullptr) tiles_of(progress.incumbent, row.slice_tiles);
  show_next(progress, row);
}

void Rules::place(Progress& progress, std::size_t tile, const Observations& row) const {
  const std::size_t counters = size(task_.counters);
  const std::int32_t slice = progress.order[progress.steps];
  row.view_mask[tile] = 1;
  // In float32 and in the order of the steps, so that stored counters give the same bits.
  float* const view = row.machine_view + tile * counters;
  const float* const added = progress.counters.data() + size(slice) * counters;
  for (std::size_t k = 0; k < counters; ++k) view[k] += added[k];
  if (row.slice_tiles != nullptr) row.slice_tiles[slice] = static_cast<std::int32_t>(tile);
  fill_mask(progress.load, tile, row.position_mask);
  ++progress.steps;
  show_next(progress, row);
}

void Rules::begin_mask(std::vector<std::int32_t>& load, std::int8_t* mask) const {
  load.assign(task_.tiles(), 0);
  std::ranges::transform(task_.worker_tiles, mask,
                         [](std::uint8_t worker) { return static_cast<std::int8_t>(worker != 0); });
}

void Rules::fill_mask(std::vector<std::int32_t>& load, std::size_t tile, std::int8_t* mask) const {
  if (++load[tile] == task_.max_slices_per_core) mask[tile] = 0;
}

int Rules::next_slice(const Progress& progress) const {
  return over(progress) ? task_.slices : progress.order[progress.steps];
}

std::size_t Rules::nearest_legal(std::size_t tile, const std::int8_t* legal) const {
  const auto place = [&](std::size_t t) {
    const std::int32_t core = task_.core_of_tile[t];
    // A tile without a core has a node and a socket of its own, so that only distance decides.
    const std::int32_t node = core < 0 ? -1 : task_.node_of_core[size(core)];
    const std::int32_t socket = node < 0 ? -1 : task_.socket_of_node[size(node)];
    return std::pair{node, socket};
  };
  const auto [node, socket] = place(tile);
  const auto columns = size(task_.columns);
  const auto apart = [](std::size_t a, std::size_t b) { return a < b ? b - a : a - b; };
  std::size_t nearest = task_.tiles();
  std::tuple<bool, bool, std::size_t> least;
  for (std::size_t t = 0; t < task_.tiles(); ++t) {
    if (legal[t] == 0) continue;
    const auto [its_node, its_socket] = place(t);
    const std::tuple far{its_node != node, its_socket != socket,
                         apart(t / columns, tile / columns) + apart(t % columns, tile % columns)};
    if (nearest == task_.tiles() || far < least) {
      nearest = t;
      least = far;
    }
  }
  // While a slice is left to place there is room: the constraint was checked against all of them.
  return nearest;
}

void Rules::incumbent_view(std::span<const float> counters, std::span<const std::int32_t> cores,
                           float* view) const {
  const std::size_t width = size(task_.counters);
  std::fill_n(view, task_.tiles() * width, 0.0F);
  for (std::size_t slice = 0; slice < cores.size(); ++slice) {
    float* const to = view + size(tile_of_core_[size(cores[slice])]) * width;
    for (std::size_t k = 0; k < width; ++k) to[k] += counters[slice * width + k];
  }
}

void Rules::tiles_of(std::span<const std::int32_t> cores, std::int32_t* tiles) const {
  std::ranges::transform(cores, tiles,
                         [this](std::int32_t core) { return tile_of_core_[size(core)]; });
}

double Rules::live_reward(double before, double after, bool last) const {
  return paid(task_.reward, before, after, last);
}

void Rules::show_next(const Progress& progress, const Observations& row) const {
  const int slice = next_slice(progress);
  // The quotient in double, as in Python.
  *row.slice = static_cast<float>(static_cast<double>(slice) / static_cast<double>(task_.slices));
  if (row.slice_view == nullptr) return;
  const std::size_t counters = size(task_.counters);
  if (over(progress)) {
    std::fill_n(row.slice_view, counters, 0.0F);
  } else {
    std::copy_n(progress.counters.data() + size(slice) * counters, counters, row.slice_view);
  }
}

void Rules::check_steps(std::span<const std::int32_t> tiles, std::size_t steps) const {
  check_length("tiles", tiles.size(), size(task_.slices));
  if (steps < 1 || steps > tiles.size() + 1) {
    refuse("steps = " + std::to_string(steps) + ": must lie between 1 and slices + 1");
  }
  for (const std::int32_t tile : tiles) {
    if (tile < 0 || size(tile) >= task_.tiles()) {
      refuse("tiles: tile " + std::to_string(tile) + " does not exist");
    }
  }
}

void Rules::expand(std::span<const float> counters, std::span<const std::int32_t> order,
                   std::span<const std::int32_t> incumbent, std::span<const std::int32_t> tiles,
                   std::size_t steps, const Observations& rows) const {
  check_steps(tiles, steps);
  check_order(order);
  check_cores("incumbent", incumbent);
  check_length("counters", counters.size(), order.size() * size(task_.counters));
  const std::size_t all = task_.tiles();
  const std::size_t views = all * size(task_.counters);
  Progress progress{counters, order, incumbent, {}, 0};
  begin(progress, rows);
  for (std::size_t t = 1; t < steps; ++t) {
    const Observations before = rows.row(t - 1, task_);
    const Observations now = rows.row(t, task_);
    std::copy_n(before.view_mask, all, now.view_mask);
    std::copy_n(before.position_mask, all, now.position_mask);
    std::copy_n(before.machine_view, views, now.machine_view);
    if (rows.slice_tiles != nullptr) {
      std::copy_n(before.slice_tiles, order.size(), now.slice_tiles);
    }
    place(progress, size(tiles[t - 1]), now);
  }
}

void Rules::expand_masks(std::span<const std::int32_t> tiles, std::size_t steps,
                         std::int8_t* masks) const {
  check_steps(tiles, steps);
  const std::size_t all = task_.tiles();
  std::vector<std::int32_t> load;
  begin_mask(load, masks);
  for (std::size_t t = 1; t < steps; ++t) {
    std::int8_t* const mask = masks + t * all;
    std::copy_n(mask - all, all, mask);
    fill_mask(load, size(tiles[t - 1]), mask);
  }
}

void rewards(Reward mode, const Outcome& outcome, std::span<double> result) {
  const std::size_t steps = outcome.order.size();
  check_length("throughput", outcome.throughput.size(), steps);
  check_length("shares", outcome.shares.size(), steps);
  check_length("rewards", result.size(), steps);
  double before = outcome.incumbent;
  for (std::size_t t = 0; t < steps; ++t) {
    const bool last = t + 1 == steps;
    const std::int32_t slice = outcome.order[t];
    if (slice < 0 || size(slice) >= steps) refuse("order: must name each slice exactly once");
    const double after = mode == Reward::terminal ? outcome.final : outcome.throughput[t];
    result[t] =
        mode == Reward::slice ? outcome.shares[size(slice)] : paid(mode, before, after, last);
    before = outcome.throughput[t];
  }
}

void returns_to_go(Reward mode, const Outcome& outcome, std::span<double> result) {
  rewards(mode, outcome, result);
  if (mode == Reward::improvement) {
    double before = outcome.incumbent;
    for (std::size_t t = 0; t < result.size(); ++t) {
      result[t] = outcome.final - before;
      before = outcome.throughput[t];
    }
    return;
  }
  double sum = 0.0;
  for (std::size_t t = result.size(); t-- > 0;) result[t] = sum += result[t];
}

}  // namespace pmoss::environment
