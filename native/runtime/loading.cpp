#include "runtime/loading.hpp"

#include <algorithm>
#include <string>

#include "runtime/errors.hpp"

namespace pmoss::runtime {

std::vector<Loader> plan_bound_loaders(const std::vector<int>& nodes,
                                       const numa::Topology& topology,
                                       const std::vector<int>& allowed, unsigned max_loaders) {
  std::map<int, std::vector<std::uint32_t>> slices_of;
  for (std::size_t slice = 0; slice < nodes.size(); ++slice) {
    slices_of[nodes[slice]].push_back(static_cast<std::uint32_t>(slice));
  }
  std::vector<Loader> loaders;
  for (const auto& [node, slices] : slices_of) {
    std::vector<int> cpus;
    for (const int cpu : allowed) {
      const numa::Cpu* const known_cpu = topology.find(cpu);
      if (known_cpu != nullptr && known_cpu->node == node) cpus.push_back(cpu);
    }
    if (cpus.empty()) {
      throw PlacementRefused("slice " + std::to_string(slices.front()) + " is to lie on node " +
                             std::to_string(node) +
                             ", which has no CPU for this process: no loader can touch its memory "
                             "first; choose nodes with CPUs, or keep the data where they are");
    }
    const std::size_t share = std::max<std::size_t>(max_loaders / slices_of.size(), 1);
    const std::size_t count = std::min({cpus.size(), slices.size(), share});
    for (std::size_t number = 0; number < count; ++number) {
      Loader loader{cpus[number], node, std::vector<bool>(nodes.size(), false)};
      for (std::size_t i = number; i < slices.size(); i += count) loader.slices[slices[i]] = true;
      loaders.push_back(std::move(loader));
    }
  }
  return loaders;
}

}  // namespace pmoss::runtime
