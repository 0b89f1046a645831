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

/// Checks that the vectors fit the machine and that the values are possible. Throws
/// std::invalid_argument that names the field, the value and what would be right.
void validate(const Interference& interference, const Machine& machine);

}  // namespace pmoss
