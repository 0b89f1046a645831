// What a Linux host looks like: cores, SMT siblings, last-level caches, NUMA nodes and distances.
// Everything comes from sysfs under a given root, so that a test can describe any machine in files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace pmoss::numa {

/// The tree below the root is not one that a Linux kernel writes.
class TopologyError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One logical CPU that is online.
struct Cpu {
  int id = 0;
  int node = 0;               ///< NUMA node (the node's id, not its position in `nodes`)
  int package = 0;            ///< socket
  int core = 0;               ///< physical core, unique within its package only
  int llc = 0;                ///< position in `Topology::llcs`
  std::vector<int> siblings;  ///< logical CPUs of the same physical core, itself included
};

/// One memory node. Nodes without CPUs (memory expanders) are listed too.
struct Node {
  int id = 0;
  std::uint64_t memory_bytes = 0;  ///< 0 if the kernel does not say
  std::vector<int> cpus;           ///< online CPUs
  std::vector<int> distances;      ///< to every node of `Topology::nodes`, local is usually 10
};

/// One last-level cache and the CPUs that share it.
struct LastLevelCache {
  int level = 0;                 ///< 0 if sysfs lists no caches: then one group per package
  std::uint64_t size_bytes = 0;  ///< 0 if the kernel does not say
  std::vector<int> cpus;
};

struct Topology {
  std::vector<Cpu> cpus;    ///< online CPUs in ascending order of their ids
  std::vector<Node> nodes;  ///< in ascending order of their ids; never empty
  std::vector<LastLevelCache> llcs;

  /// The CPU of this id, or null if it is not online.
  const Cpu* find(int cpu) const noexcept;
};

/// Parses the kernel's list format, for example "0-3,8,10-11".
/// Throws TopologyError on anything else.
std::vector<int> parse_cpu_list(std::string_view text);

/// Reads <root>/sys/devices/system/{cpu,node}. A host without node folders (a kernel without NUMA)
/// is one node. Throws TopologyError if no online CPU can be found.
Topology read_topology(const std::filesystem::path& root = "/");

}  // namespace pmoss::numa
