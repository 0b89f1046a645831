// Where the cores of a machine are, in unsigned numbers that index the model's arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine/machine.hpp"

namespace pmoss::analytic {

/// Number of a slice, stream, core, physical core, node or last-level domain.
using Index = std::uint32_t;

struct CoreMap {
  /// The machine must be complete; see Machine::complete().
  explicit CoreMap(const Machine& machine);

  Index cores() const { return static_cast<Index>(node_of_core.size()); }
  Index nodes() const { return static_cast<Index>(socket_of_node.size()); }
  /// The domain that caches the lines of a node for a core.
  Index domain_of(Index core, Index node) const { return llc_of[core * nodes() + node]; }
  Index socket_of_core(Index core) const { return socket_of_node[node_of_core[core]]; }

  std::vector<Index> node_of_core, socket_of_node;
  std::vector<Index> llc_of_core;       // the domain that the core belongs to
  std::vector<Index> physical_of_core;  // physical cores are numbered without gaps
  std::vector<std::vector<Index>> cores_of_physical;
  std::vector<Index> llc_of;   // [core][node]
  std::vector<Index> workers;  // cores that serve queries, in ascending order
  Index physical_cores = 0;
  Index domains = 0;
};

}  // namespace pmoss::analytic
