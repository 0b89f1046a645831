// The co-tenants of a machine, as the resources that they take.
#pragma once

#include <vector>

#include "machine/machine.hpp"

namespace pmoss {

/// Empty vectors mean: none. Both models take co-tenants in this form.
struct Interference {
  std::vector<double> busy_share;          // per core: share of its time
  std::vector<double> sibling_busy_share;  // per core: share of the time that its sibling is busy
  std::vector<double> llc_lines_per_ns;    // per domain: lines brought in that are never used again
  std::vector<double> dram_gb_per_s;       // per node: memory bandwidth taken, by reading
  std::vector<double> link_gb_per_s;       // [from socket][to socket]: link bandwidth taken
};

/// A program of others.
struct Neighbour {
  enum class Kind { busy_core, busy_sibling, cache_thrash, memory_stream, link_stream };
  Kind kind = Kind::busy_core;
  int target = 0;       ///< core, last-level domain, node or link [from socket][to socket]
  double strength = 0;  ///< share that it takes of it
};

/// What neighbours take. Several on one target each take their share of what the others leave. One
/// that sweeps a cache also takes the memory bandwidth that it streams. Throws
/// std::invalid_argument for a target that does not exist.
Interference taken_by(const std::vector<Neighbour>& neighbours, const Machine& machine);

/// Checks that the vectors fit the machine and that the values are possible. Throws
/// std::invalid_argument that names the field, the value and what would be right.
void validate(const Interference& interference, const Machine& machine);

}  // namespace pmoss
