#include "numa/topology.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "numa/sysfs.hpp"

namespace pmoss::numa {
namespace {

namespace fs = std::filesystem;
using sysfs::parse_integer;
using sysfs::read_integer;
using sysfs::read_text;

// A list file that may be absent. A file that is there but malformed is an error, not "absent".
std::optional<std::vector<int>> read_list(const fs::path& file) {
  const auto text = read_text(file);
  if (!text) return std::nullopt;
  return parse_cpu_list(*text);
}

// The numbers N of the entries "<prefix>N" of a folder, ascending.
std::vector<int> numbered_entries(const fs::path& folder, std::string_view prefix) {
  std::set<int> numbers;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto digits = name.substr(prefix.size());
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) continue;
    numbers.insert(static_cast<int>(*parse_integer(digits)));
  }
  return {numbers.begin(), numbers.end()};
}

// Cache sizes read "32768K", "1024K" or "32M".
std::uint64_t parse_size(std::string_view text) {
  text = sysfs::trim(text);
  std::uint64_t unit = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'K':
        unit = 1ULL << 10;
        break;
      case 'M':
        unit = 1ULL << 20;
        break;
      case 'G':
        unit = 1ULL << 30;
        break;
      default:
        break;
    }
    if (unit != 1) text.remove_suffix(1);
  }
  const auto value = parse_integer(text);
  return value && *value > 0 ? static_cast<std::uint64_t>(*value) * unit : 0;
}

// "Node 0 MemTotal:  24689992 kB"
std::uint64_t node_memory(const fs::path& meminfo) {
  const auto text = read_text(meminfo);
  if (!text) return 0;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("MemTotal:");
    if (at == std::string::npos) continue;
    std::istringstream fields(line.substr(at + std::string_view("MemTotal:").size()));
    std::uint64_t kibibytes = 0;
    if (fields >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

std::vector<int> read_distances(const fs::path& file) {
  std::vector<int> distances;
  if (const auto text = read_text(file)) {
    std::istringstream fields(*text);
    for (int distance = 0; fields >> distance;) distances.push_back(distance);
  }
  return distances;
}

struct CacheEntry {
  int level = 0;
  std::uint64_t size_bytes = 0;
  std::vector<int> cpus;
};

// The highest level that holds data. Instruction caches are never the last level.
std::optional<CacheEntry> last_level_cache(const fs::path& cpu_folder) {
  std::optional<CacheEntry> best;
  for (const int index : numbered_entries(cpu_folder / "cache", "index")) {
    const fs::path folder = cpu_folder / "cache" / ("index" + std::to_string(index));
    if (read_text(folder / "type").value_or("") == "Instruction") continue;
    const auto level = read_integer(folder / "level");
    auto cpus = read_list(folder / "shared_cpu_list");
    if (!level || !cpus || cpus->empty()) continue;
    if (best && best->level >= *level) continue;
    best = CacheEntry{static_cast<int>(*level), parse_size(read_text(folder / "size").value_or("")),
                      std::move(*cpus)};
  }
  return best;
}

void keep_online(std::vector<int>& cpus, const std::set<int>& online) {
  std::erase_if(cpus, [&](int cpu) { return !online.contains(cpu); });
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::set<int> cpus;
  text = sysfs::trim(text);
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view part = sysfs::trim(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const auto dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_integer(part.substr(dash + 1));
    // The bound keeps a corrupt file from filling the memory.
    if (!first || !last || *first < 0 || *last < *first || *last > 1'000'000) {
      throw TopologyError("not a list of CPUs: '" + std::string(part) + "'");
    }
    for (auto cpu = *first; cpu <= *last; ++cpu) cpus.insert(static_cast<int>(cpu));
  }
  return {cpus.begin(), cpus.end()};
}

const Cpu* Topology::find(int cpu) const noexcept {
  const auto at = std::lower_bound(cpus.begin(), cpus.end(), cpu,
                                   [](const Cpu& a, int id) { return a.id < id; });
  return at != cpus.end() && at->id == cpu ? &*at : nullptr;
}

Topology read_topology(const fs::path& root) {
  const fs::path cpu_root = root / "sys/devices/system/cpu";
  const fs::path node_root = root / "sys/devices/system/node";

  std::vector<int> ids;
  if (auto online = read_list(cpu_root / "online")) {
    ids = std::move(*online);
  } else {
    ids = numbered_entries(cpu_root, "cpu");  // containers sometimes hide the summary file
  }
  if (ids.empty()) throw TopologyError("no online CPU under " + cpu_root.string());
  const std::set<int> online(ids.begin(), ids.end());

  Topology topology;
  std::map<int, int> node_of;
  for (const int id : numbered_entries(node_root, "node")) {
    const fs::path folder = node_root / ("node" + std::to_string(id));
    Node node;
    node.id = id;
    node.memory_bytes = node_memory(folder / "meminfo");
    node.cpus = read_list(folder / "cpulist").value_or(std::vector<int>{});
    keep_online(node.cpus, online);
    node.distances = read_distances(folder / "distance");
    for (const int cpu : node.cpus) node_of[cpu] = id;
    topology.nodes.push_back(std::move(node));
  }
  if (topology.nodes.empty()) {
    topology.nodes.push_back(Node{0, 0, ids, {10}});
    for (const int cpu : ids) node_of[cpu] = 0;
  }
  for (const Node& node : topology.nodes) {
    if (!node.distances.empty() && node.distances.size() != topology.nodes.size()) {
      throw TopologyError("node " + std::to_string(node.id) + " lists " +
                          std::to_string(node.distances.size()) + " distances for " +
                          std::to_string(topology.nodes.size()) + " nodes");
    }
  }

  std::map<std::pair<int, std::vector<int>>, int> llc_index;
  for (const int id : ids) {
    const fs::path folder = cpu_root / ("cpu" + std::to_string(id));
    Cpu cpu;
    cpu.id = id;
    const auto node = node_of.find(id);
    cpu.node = node != node_of.end() ? node->second : topology.nodes.front().id;
    // The kernel writes -1 where the firmware does not say.
    cpu.package = static_cast<int>(
        std::max(0LL, read_integer(folder / "topology/physical_package_id").value_or(0)));
    cpu.core = static_cast<int>(read_integer(folder / "topology/core_id").value_or(id));
    cpu.siblings = read_list(folder / "topology/thread_siblings_list").value_or(std::vector<int>{});
    keep_online(cpu.siblings, online);
    if (cpu.siblings.empty()) cpu.siblings = {id};

    LastLevelCache llc;
    if (auto cache = last_level_cache(folder)) {
      keep_online(cache->cpus, online);
      llc = LastLevelCache{cache->level, cache->size_bytes, std::move(cache->cpus)};
    }
    // Without caches in sysfs the key is the package, and its members are collected below.
    const auto key = llc.level > 0 ? std::pair(llc.level, llc.cpus)
                                   : std::pair(0, std::vector<int>{cpu.package});
    const auto [at, added] = llc_index.emplace(key, static_cast<int>(topology.llcs.size()));
    if (added) topology.llcs.push_back(llc);
    cpu.llc = at->second;
    auto& group = topology.llcs[static_cast<std::size_t>(cpu.llc)];
    if (group.level == 0) group.cpus.push_back(id);
    topology.cpus.push_back(std::move(cpu));
  }
  return topology;
}

}  // namespace pmoss::numa
