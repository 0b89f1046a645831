// Which threads of a measurement run on which CPU, and which of them share a core.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "numa/topology.hpp"

namespace pmoss::runtime {

/// A physical core on which roles compete: two on one of its CPUs, or different kinds of them on
/// its hardware threads. Workers on all threads of a core are not listed: that is what SMT is for.
struct SharedCore {
  std::vector<int> cpus;           ///< that carry a role, ascending
  std::vector<std::string> roles;  ///< such as "worker 3", "router 0", "stitcher"
};

/// One role and its CPU; -1 where the kernel chooses.
struct Role {
  enum class Kind { worker, router, sweeper, stitcher };
  Kind kind;
  std::string name;
  int cpu;
};

std::vector<SharedCore> find_shared_cores(const std::vector<Role>& roles,
                                          const numa::Topology& topology);
std::vector<std::string> find_unbound(const std::vector<Role>& roles);

/// A CPU for a router, of those that are free: one whose core carries none of the `taken` CPUs, if
/// there is any. -1 if none is free.
int choose_free_cpu(const std::vector<int>& allowed, const std::vector<int>& taken,
                    const numa::Topology& topology);

/// The CPUs of the sweepers and of the stitcher; -1 where the kernel chooses.
struct SweeperCpus {
  std::vector<int> of_node;  ///< [nodes with workers]
  int offcore = -1;
  int stitcher = -1;
};

/// Each node's sweeper takes the first of `cpus` on its node. The off-core sweeper and the stitcher
/// take the next ones without a role. If there are none, they share the first and the last of all.
SweeperCpus choose_sweepers(const std::vector<int>& cpus, const std::vector<int>& nodes,
                            const std::map<int, int>& node_of);

}  // namespace pmoss::runtime
