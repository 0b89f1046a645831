#include "runtime/roles.hpp"

#include <algorithm>
#include <set>

namespace pmoss::runtime {
namespace {

/// A physical core goes by the lowest of its CPUs.
int core_of(int cpu, const numa::Topology& topology) {
  const numa::Cpu* const known_cpu = topology.find(cpu);
  if (known_cpu == nullptr || known_cpu->siblings.empty()) return cpu;
  return *std::min_element(known_cpu->siblings.begin(), known_cpu->siblings.end());
}

}  // namespace

std::vector<SharedCore> find_shared_cores(const std::vector<Role>& roles,
                                          const numa::Topology& topology) {
  std::map<int, std::vector<const Role*>> on_core;
  for (const Role& role : roles) {
    if (role.cpu >= 0) on_core[core_of(role.cpu, topology)].push_back(&role);
  }
  std::vector<SharedCore> shared;
  for (const auto& [core, its_roles] : on_core) {
    std::set<int> cpus;
    std::set<Role::Kind> kinds;
    SharedCore shared_core;
    for (const Role* role : its_roles) {
      cpus.insert(role->cpu);
      kinds.insert(role->kind);
      shared_core.roles.push_back(role->name);
    }
    if (cpus.size() == its_roles.size() && kinds.size() == 1) continue;
    shared_core.cpus.assign(cpus.begin(), cpus.end());
    shared.push_back(std::move(shared_core));
  }
  return shared;
}

std::vector<std::string> find_unbound(const std::vector<Role>& roles) {
  std::vector<std::string> unbound;
  for (const Role& role : roles) {
    if (role.cpu < 0) unbound.push_back(role.name);
  }
  return unbound;
}

int choose_free_cpu(const std::vector<int>& allowed, const std::vector<int>& taken,
                    const numa::Topology& topology) {
  std::set<int> taken_cores;
  for (const int cpu : taken) taken_cores.insert(core_of(cpu, topology));
  int sibling = -1;
  for (const int cpu : allowed) {
    if (std::find(taken.begin(), taken.end(), cpu) != taken.end()) continue;
    if (!taken_cores.contains(core_of(cpu, topology))) return cpu;
    if (sibling < 0) sibling = cpu;
  }
  return sibling;
}

SweeperCpus choose_sweepers(const std::vector<int>& cpus, const std::vector<int>& nodes,
                            const std::map<int, int>& node_of) {
  SweeperCpus chosen;
  std::vector<int> free = cpus;
  for (const int node : nodes) {
    const auto own =
        std::find_if(free.begin(), free.end(), [&](int cpu) { return node_of.at(cpu) == node; });
    chosen.of_node.push_back(own == free.end() ? -1 : *own);
    if (own != free.end()) free.erase(own);
  }
  if (cpus.empty()) return chosen;
  chosen.offcore = free.empty() ? cpus.front() : free.front();
  chosen.stitcher = free.size() > 1 ? free[1] : cpus.back();
  return chosen;
}

}  // namespace pmoss::runtime
