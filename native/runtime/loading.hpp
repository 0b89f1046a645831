// Which thread loads which slices, and where the data came to lie by that.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "numa/topology.hpp"

namespace pmoss::runtime {

/// A thread that puts records into the index.
struct Loader {
  int cpu = -1;              ///< that it is bound to; -1: it runs anywhere
  int node = -1;             ///< of that CPU
  std::vector<bool> slices;  ///< [slices] whose records it loads
};

/// Loaders for an index whose data cannot be moved: what they touch first lies on their node. Those
/// of a slice are bound to CPUs of its node.
///
/// `nodes` are [slices], the kernel's numbers. There are at most `max_loaders`, but one for each
/// node. Throws PlacementRefused for a node without a CPU in `allowed`.
std::vector<Loader> plan_bound_loaders(const std::vector<int>& nodes,
                                       const numa::Topology& topology,
                                       const std::vector<int>& allowed, unsigned max_loaders);

/// What bound loaders did.
struct LoadReport {
  std::vector<Loader> loaders;  ///< where each really ran; empty if none was bound
  /// By how many pages of 4 KiB the process grew meanwhile on each node, as the kernel lists them.
  std::map<int, std::int64_t> pages;
  int error_number = 0;  ///< why the kernel does not list them; 0 if it does
};

}  // namespace pmoss::runtime
