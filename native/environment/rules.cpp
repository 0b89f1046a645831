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
  check_room();
  if (max_slices_per_core != 0 && size(max_slices_per_core) * workers < size(slices)) {
    refuse("max_slices_per_core = " + std::to_string(max_slices_per_core) +
           ": leaves no room for all slices");
  }
}

void Task::check_room() const {
  if (max_slices_of_node.empty()) return;
  check_length("max_slices_of_node", max_slices_of_node.size(), nodes());
  std::size_t room = 0;
  for (const std::int32_t limit : max_slices_of_node) {
    check_least("max_slices_of_node", limit, 0);
    room += size(limit);
  }
  if (room < size(slices)) refuse("max_slices_of_node: leaves no room for all slices");
}

Observations Observations::row(std::size_t i, const Task& task) const {
  const std::size_t tiles = task.tiles();
  const std::size_t nodes = task.nodes();
  const std::size_t slices = size(task.slices);
  const std::size_t counters = size(task.counters);
  Observations result = *this;
  const auto advance = [i](auto& values, std::size_t row) {
    if (values != nullptr) values += i * row;
  };
  advance(result.position_mask, tiles);
  advance(result.slice, 1);
  advance(result.view_mask, tiles);
  advance(result.machine_view, tiles * counters);
  advance(result.meta, size(task.meta));
  advance(result.slice_view, counters);
  advance(result.incumbent_view, tiles * counters);
  advance(result.slice_places, slices);
  advance(result.slice_counters, slices * counters);
  advance(result.incumbent_tiles, slices);
  advance(result.slice_tiles, slices);
  advance(result.node_mask, nodes);
  advance(result.node_room, nodes);
  advance(result.node_view, nodes * counters);
  advance(result.incumbent_nodes, slices);
  advance(result.slice_nodes, slices);
  return result;
}

void Observations::copy_to(const Observations& to, std::size_t rows, const Task& task) const {
  const std::size_t tiles = rows * task.tiles();
  const std::size_t slices = rows * size(task.slices);
  const std::size_t nodes = rows * task.nodes();
  const std::size_t counters = size(task.counters);
  const auto copy = [](const auto* from, std::size_t n, auto* values) {
    if (from != nullptr) std::copy_n(from, n, values);
  };
  copy(position_mask, tiles, to.position_mask);
  copy(slice, rows, to.slice);
  copy(view_mask, tiles, to.view_mask);
  copy(machine_view, tiles * counters, to.machine_view);
  copy(meta, rows * size(task.meta), to.meta);
  copy(slice_view, rows * counters, to.slice_view);
  copy(incumbent_view, tiles * counters, to.incumbent_view);
  copy(slice_places, slices, to.slice_places);
  copy(slice_counters, slices * counters, to.slice_counters);
  copy(incumbent_tiles, slices, to.incumbent_tiles);
  copy(slice_tiles, slices, to.slice_tiles);
  copy(node_mask, nodes, to.node_mask);
  copy(node_room, nodes, to.node_room);
  copy(node_view, nodes * counters, to.node_view);
  copy(incumbent_nodes, slices, to.incumbent_nodes);
  copy(slice_nodes, slices, to.slice_nodes);
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

void Rules::check_nodes(const char* name, std::span<const std::int32_t> nodes) const {
  check_length(name, nodes.size(), size(task_.slices));
  for (const std::int32_t node : nodes) {
    if (node < 0 || size(node) >= task_.nodes()) {
      refuse(std::string(name) + ": node " + std::to_string(node) + " does not exist");
    }
  }
}

Place Rules::place_of(std::size_t action) const {
  if (task_.chooses_node) return {action / task_.nodes(), action % task_.nodes()};
  const std::int32_t core = task_.core_of_tile[action];
  return {action, core < 0 ? 0 : size(task_.node_of_core[size(core)])};
}

std::int16_t Rules::action_of(const Place& place) const {
  return static_cast<std::int16_t>(task_.chooses_node ? place.tile * task_.nodes() + place.node
                                                      : place.tile);
}

void Rules::begin(Progress& progress, const Observations& row) const {
  progress.steps = 0;
  begin_mask(progress.load, row.position_mask, row.node_mask);
  if (row.view_mask != nullptr) std::fill_n(row.view_mask, task_.tiles(), std::int8_t{0});
  if (row.machine_view != nullptr) {
    std::fill_n(row.machine_view, task_.tiles() * size(task_.counters), 0.0F);
  }
  if (row.slice_places != nullptr) {
    for (std::size_t slice = 0; slice < progress.incumbent.size(); ++slice) {
      row.slice_places[slice] = action_of({size(tile_of_core_[size(progress.incumbent[slice])]),
                                           size(progress.incumbent_nodes[slice])});
    }
  }
  if (row.slice_tiles != nullptr) tiles_of(progress.incumbent, row.slice_tiles);
  if (row.node_view != nullptr) {
    std::fill_n(row.node_view, task_.nodes() * size(task_.counters), 0.0F);
  }
  if (row.node_room != nullptr) show_room(progress.load, row);
  if (row.slice_nodes != nullptr) std::ranges::copy(progress.incumbent_nodes, row.slice_nodes);
  show_next(progress, row);
}

void Rules::place(Progress& progress, const Place& to, const Observations& row) const {
  const std::size_t counters = size(task_.counters);
  const std::int32_t slice = progress.order[progress.steps];
  const float* const added = progress.counters.data() + size(slice) * counters;
  // In float32 and in the order of the steps, so that stored counters give the same bits.
  const auto add = [&](float* view, std::size_t at) {
    for (std::size_t k = 0; k < counters; ++k) view[at * counters + k] += added[k];
  };
  if (row.view_mask != nullptr) row.view_mask[to.tile] = 1;
  if (row.machine_view != nullptr) add(row.machine_view, to.tile);
  if (row.slice_places != nullptr) row.slice_places[slice] = action_of(to);
  if (row.slice_tiles != nullptr) row.slice_tiles[slice] = static_cast<std::int32_t>(to.tile);
  fill_mask(progress.load, to, row.position_mask, row.node_mask);
  if (row.node_view != nullptr) add(row.node_view, to.node);
  if (row.node_room != nullptr) show_room(progress.load, row);
  if (row.slice_nodes != nullptr) row.slice_nodes[slice] = static_cast<std::int32_t>(to.node);
  ++progress.steps;
  show_next(progress, row);
}

bool Rules::is_legal(const Place& place, const Observations& row) const {
  return row.position_mask[place.tile] != 0 &&
         (row.node_mask == nullptr || row.node_mask[place.node] != 0);
}

void Rules::begin_mask(Load& load, std::int8_t* mask, std::int8_t* nodes) const {
  load.tiles.assign(task_.tiles(), 0);
  load.nodes.assign(task_.nodes(), 0);
  const auto& limits = task_.max_slices_of_node;
  const auto full = [&](std::size_t node) { return !limits.empty() && limits[node] == 0; };
  for (std::size_t t = 0; t < task_.tiles(); ++t) {
    const bool worker = task_.worker_tiles[t] != 0;
    mask[t] = static_cast<std::int8_t>(worker && (nodes != nullptr || !full(place_of(t).node)));
  }
  if (nodes == nullptr) return;
  for (std::size_t n = 0; n < task_.nodes(); ++n) nodes[n] = static_cast<std::int8_t>(!full(n));
}

void Rules::fill_mask(Load& load, const Place& to, std::int8_t* mask, std::int8_t* nodes) const {
  if (++load.tiles[to.tile] == task_.max_slices_per_core) mask[to.tile] = 0;
  const auto& limits = task_.max_slices_of_node;
  if (++load.nodes[to.node] != (limits.empty() ? 0 : limits[to.node])) return;
  if (nodes != nullptr) {
    nodes[to.node] = 0;
    return;
  }
  for (std::size_t t = 0; t < task_.tiles(); ++t) {
    if (place_of(t).node == to.node) mask[t] = 0;
  }
}

void Rules::action_mask(const std::int8_t* mask, const std::int8_t* nodes,
                        std::int8_t* actions) const {
  if (nodes == nullptr) {
    std::copy_n(mask, task_.tiles(), actions);
    return;
  }
  for (std::size_t t = 0; t < task_.tiles(); ++t) {
    for (std::size_t n = 0; n < task_.nodes(); ++n) {
      *actions++ = static_cast<std::int8_t>(mask[t] != 0 && nodes[n] != 0);
    }
  }
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

std::size_t Rules::nearest_node(std::size_t node, const std::int8_t* legal) const {
  std::size_t nearest = task_.nodes();
  bool close = false;
  for (std::size_t n = 0; n < task_.nodes(); ++n) {
    if (legal[n] == 0) continue;
    const bool same = task_.socket_of_node[n] == task_.socket_of_node[node];
    if (nearest == task_.nodes() || (same && !close)) {
      nearest = n;
      close = same;
    }
  }
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

void Rules::show_room(const Load& load, const Observations& row) const {
  const auto& limits = task_.max_slices_of_node;
  for (std::size_t n = 0; n < task_.nodes(); ++n) {
    float room = 1.0F;
    if (!limits.empty() && limits[n] > 0) {
      room = 1.0F - static_cast<float>(load.nodes[n]) / static_cast<float>(limits[n]);
    } else if (!limits.empty()) {
      room = 0.0F;
    }
    row.node_room[n] = room;
  }
}

void Rules::check_steps(std::span<const std::int32_t> actions, std::size_t steps) const {
  check_length("actions", actions.size(), size(task_.slices));
  if (steps < 1 || steps > actions.size() + 1) {
    refuse("steps = " + std::to_string(steps) + ": must lie between 1 and slices + 1");
  }
  for (const std::int32_t action : actions) {
    if (action < 0 || size(action) >= task_.actions()) {
      refuse("actions: action " + std::to_string(action) + " does not exist");
    }
  }
}

void Rules::expand(std::span<const float> counters, std::span<const std::int32_t> order,
                   std::span<const std::int32_t> incumbent,
                   std::span<const std::int32_t> incumbent_nodes,
                   std::span<const std::int32_t> actions, std::size_t steps,
                   const Observations& rows) const {
  check_steps(actions, steps);
  check_order(order);
  check_cores("incumbent", incumbent);
  check_nodes("incumbent_nodes", incumbent_nodes);
  check_length("counters", counters.size(), order.size() * size(task_.counters));
  const std::size_t all = task_.tiles();
  const std::size_t views = all * size(task_.counters);
  const std::size_t nodes = task_.nodes();
  Progress progress{counters, order, incumbent, incumbent_nodes, {}, 0};
  begin(progress, rows);
  for (std::size_t t = 1; t < steps; ++t) {
    const Observations before = rows.row(t - 1, task_);
    const Observations now = rows.row(t, task_);
    std::copy_n(before.position_mask, all, now.position_mask);
    if (rows.view_mask != nullptr) {
      std::copy_n(before.view_mask, all, now.view_mask);
      std::copy_n(before.machine_view, views, now.machine_view);
    }
    if (rows.slice_places != nullptr) {
      std::copy_n(before.slice_places, order.size(), now.slice_places);
    }
    if (rows.slice_tiles != nullptr) {
      std::copy_n(before.slice_tiles, order.size(), now.slice_tiles);
    }
    if (rows.node_mask != nullptr) {
      std::copy_n(before.node_mask, nodes, now.node_mask);
    }
    if (rows.node_view != nullptr) {
      std::copy_n(before.node_view, nodes * size(task_.counters), now.node_view);
    }
    if (rows.slice_nodes != nullptr) {
      std::copy_n(before.slice_nodes, order.size(), now.slice_nodes);
    }
    place(progress, place_of(size(actions[t - 1])), now);
  }
}

void Rules::expand_masks(std::span<const std::int32_t> actions, std::size_t steps,
                         std::int8_t* masks) const {
  check_steps(actions, steps);
  std::vector<std::int8_t> tiles(task_.tiles());
  std::vector<std::int8_t> nodes(task_.chooses_node ? task_.nodes() : 0);
  std::int8_t* const of_nodes = task_.chooses_node ? nodes.data() : nullptr;
  Load load;
  begin_mask(load, tiles.data(), of_nodes);
  for (std::size_t t = 0; t < steps; ++t) {
    if (t > 0) fill_mask(load, place_of(size(actions[t - 1])), tiles.data(), of_nodes);
    action_mask(tiles.data(), of_nodes, masks + t * task_.actions());
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
