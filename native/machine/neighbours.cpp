#include <algorithm>
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

constexpr double line_bytes = 64.0;

double& at(std::vector<double>& values, int target) {
  if (target < 0 || static_cast<std::size_t>(target) >= values.size()) {
    throw std::invalid_argument("target " + std::to_string(target) + " of a co-tenant: must be " +
                                "from 0 to " + std::to_string(values.size() - 1));
  }
  return values[static_cast<std::size_t>(target)];
}

void take(std::vector<double>& taken, int target, double share) {
  double& value = at(taken, target);
  value = 1.0 - (1.0 - value) * (1.0 - share);
}

}  // namespace

Interference taken_by(const std::vector<Neighbour>& neighbours, const Machine& machine) {
  const auto cores = static_cast<std::size_t>(machine.cores());
  Interference taken;
  taken.busy_share.assign(cores, 0.0);
  taken.sibling_busy_share.assign(cores, 0.0);
  taken.llc_lines_per_ns.assign(static_cast<std::size_t>(machine.llc_domains()), 0.0);
  taken.dram_gb_per_s.assign(static_cast<std::size_t>(machine.nodes()), 0.0);
  taken.link_gb_per_s.assign(machine.link_gb_per_s.size(), 0.0);
  for (const auto& [kind, target, strength] : neighbours) {
    switch (kind) {
      case Neighbour::Kind::busy_core:
        take(taken.busy_share, target, strength);
        break;
      case Neighbour::Kind::busy_sibling:
        take(taken.sibling_busy_share, target, strength);
        break;
      case Neighbour::Kind::cache_thrash: {
        double& lines = at(taken.llc_lines_per_ns, target);
        const auto first =
            std::find(machine.llc_of_core.begin(), machine.llc_of_core.end(), target);
        if (first == machine.llc_of_core.end()) {
          throw std::invalid_argument("target " + std::to_string(target) +
                                      " of a co-tenant: no core has this last-level domain");
        }
        const int node =
            machine.node_of_core[static_cast<std::size_t>(first - machine.llc_of_core.begin())];
        lines += strength * machine.dram_gb_per_s[static_cast<std::size_t>(node)] / line_bytes;
        take(taken.dram_gb_per_s, node, strength);
        break;
      }
      case Neighbour::Kind::memory_stream:
        take(taken.dram_gb_per_s, target, strength);
        break;
      case Neighbour::Kind::link_stream:
        take(taken.link_gb_per_s, target, strength);
        break;
    }
  }
  // Shares until here.
  for (std::size_t i = 0; i < taken.dram_gb_per_s.size(); ++i) {
    taken.dram_gb_per_s[i] *= machine.dram_gb_per_s[i];
  }
  for (std::size_t i = 0; i < taken.link_gb_per_s.size(); ++i) {
    taken.link_gb_per_s[i] *= machine.link_gb_per_s[i];
  }
  return taken;
}

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
