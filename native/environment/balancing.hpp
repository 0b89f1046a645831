// Gives slices to cores so that the fullest core ends as early as possible, for given times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pmoss::environment {

/// What each slice takes on each core, 0 or more: [slice][core]. Not owned.
struct SliceTimes {
  std::span<const double> values;
  std::size_t cores = 0;

  std::size_t slices() const { return cores == 0 ? 0 : values.size() / cores; }
  double at(std::size_t slice, std::size_t core) const { return values[slice * cores + core]; }
};

/// Places the slices in an order, each on the core that then ends earliest, the lowest of equal
/// ones.
/// Args: `order` names each slice once; `max_per_core`: slices that a core may get, 0: any number.
/// Returns: [slice], its core. Throws std::invalid_argument for a wrong order.
std::vector<std::int64_t> place_in_order(const SliceTimes& times,
                                         std::span<const std::int64_t> order,
                                         std::size_t max_per_core);

/// Relieves the fullest core of `chosen`, [slice], by one move or one exchange after the other: by
/// the one after which the two cores that take part end earliest, a move before an exchange.
/// Ends where none shortens the longest time, or after so many `changes`.
/// Throws std::invalid_argument for a wrong length, or a core that does not exist.
void balance(const SliceTimes& times, std::size_t max_per_core, int changes,
             std::span<std::int64_t> chosen);

}  // namespace pmoss::environment
