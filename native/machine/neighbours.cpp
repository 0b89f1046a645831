#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>

#include "machine/interference.hpp"

namespace pmoss {
namespace {

/// A vector is empty or has `right` values, all in [0, below).
void check(const char* name, const std::vector<double>& values, int right, double below) {
  if (values.empty()) return;
  if (values.size() != static_cast<std::size_t>(right)) {
    throw std::invalid_argument("length of " + std::string(name) + " = " +
                                std::to_string(values.size()) + ": must be " +
                                std::to_string(right) + ", or 0 where there is none");
  }
  for (const double value : values) {
    if (value >= 0.0 && value < below) continue;
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) +
                                ": must lie in [0, " +
                                (std::isinf(below) ? "infinity" : std::to_string(below)) + ")");
  }
}

}  // namespace

void validate(const Interference& interference, const Machine& machine) {
  const double any = std::numeric_limits<double>::infinity();
  const int sockets = machine.sockets();
  check("busy_share", interference.busy_share, machine.cores(), 1.0);
  check("sibling_busy_share", interference.sibling_busy_share, machine.cores(),
        std::nextafter(1.0, 2.0));
  check("llc_lines_per_ns", interference.llc_lines_per_ns, machine.llc_domains(), any);
  check("dram_gb_per_s", interference.dram_gb_per_s, machine.nodes(), any);
  check("link_gb_per_s", interference.link_gb_per_s, sockets * sockets, any);
}

}  // namespace pmoss
