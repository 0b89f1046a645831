#include "analytic/core_map.hpp"

#include <algorithm>

namespace pmoss::analytic {

CoreMap::CoreMap(const Machine& machine)
    : node_of_core(machine.node_of_core.begin(), machine.node_of_core.end()),
      socket_of_node(machine.socket_of_node.begin(), machine.socket_of_node.end()),
      llc_of_core(machine.llc_of_core.begin(), machine.llc_of_core.end()),
      domains(static_cast<Index>(machine.llc_domains())) {
  for (int core = 0; core < machine.cores(); ++core) {
    for (int node = 0; node < machine.nodes(); ++node) {
      llc_of.push_back(static_cast<Index>(machine.llc_of(core, node)));
    }
  }
  std::vector<int> numbers = machine.physical_of_core;
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  for (const int number : machine.physical_of_core) {
    physical_of_core.push_back(static_cast<Index>(
        std::lower_bound(numbers.begin(), numbers.end(), number) - numbers.begin()));
  }
  physical_cores = static_cast<Index>(numbers.size());
  cores_of_physical.resize(physical_cores);
  for (Index core = 0; core < cores(); ++core) {
    cores_of_physical[physical_of_core[core]].push_back(core);
  }
  for (Index core = 0; core < cores(); ++core) {
    if (machine.is_worker[core] != 0) workers.push_back(core);
  }
}

}  // namespace pmoss::analytic
