#include "numa/available_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "numa/control_groups.hpp"
#include "numa/sysfs.hpp"
#include "numa/topology.hpp"

namespace pmoss::numa {
namespace {

namespace fs = std::filesystem;
using Numbers = std::map<std::string, std::uint64_t>;

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

/// The number at the start of a file; nothing if there is no file or no number ("max").
std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// Lines "NAME: NUMBER kB" or "NAME NUMBER", with words of the kernel before the name or not; the
/// numbers as they are.
Numbers numbers_in(const fs::path& path) {
  Numbers numbers;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    for (std::string word; words >> word; name = word) {
      const auto number = sysfs::parse_integer(word);
      // "Node 0 MemFree: 17 kB": what stands behind "Node" is no value.
      if (!number || *number < 0 || name.empty() || name == "Node") continue;
      if (name.back() == ':') name.pop_back();
      numbers.emplace(name, static_cast<std::uint64_t>(*number));
      break;
    }
  }
  return numbers;
}

std::uint64_t sum_of(const Numbers& numbers, const std::vector<const char*>& names) {
  std::uint64_t sum = 0;
  for (const char* const name : names) {
    const auto at = numbers.find(name);
    if (at != numbers.end()) sum += at->second;
  }
  return sum;
}

/// The names of a control group's files, which differ between the versions.
struct GroupFiles {
  std::vector<const char*> limits;
  const char* used;
  std::vector<const char*> cache;  ///< in memory.stat: what can be reclaimed
};

const GroupFiles version_1{{"memory.limit_in_bytes"},
                           "memory.usage_in_bytes",
                           {"total_active_file", "total_inactive_file"}};
const GroupFiles version_2{{"memory.max", "memory.high"},
                           "memory.current",
                           {"active_file", "inactive_file", "slab_reclaimable"}};

/// What one group leaves.
std::uint64_t left_in(const fs::path& group, const GroupFiles& files) {
  const auto used = number_in(group / files.used);
  std::uint64_t limit = no_limit;
  for (const char* const name : files.limits) {
    limit = std::min(limit, number_in(group / name).value_or(no_limit));
  }
  if (!used || limit == no_limit) return no_limit;
  const std::uint64_t cache = sum_of(numbers_in(group / "memory.stat"), files.cache);
  const std::uint64_t held = *used - std::min(*used, cache);
  return limit - std::min(limit, held);
}

std::uint64_t left_in_groups(const fs::path& root) {
  std::uint64_t left = no_limit;
  sysfs::visit_groups(root, "memory", [&](const fs::path& group, int version) {
    left = std::min(left, left_in(group, version == 2 ? version_2 : version_1));
  });
  return left;
}

/// What the nodes leave that the process may use; no limit if those are all, or the kernel does not
/// say.
std::uint64_t left_on_nodes(const fs::path& root) {
  std::ifstream status(root / "proc/self/status");
  std::vector<int> allowed;
  constexpr std::string_view key = "Mems_allowed_list:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) allowed = parse_cpu_list(std::string_view(line).substr(key.size()));
  }
  const auto online = sysfs::read_text(root / "sys/devices/system/node/has_memory");
  if (allowed.empty() || !online) return no_limit;
  const std::vector<int> with_memory = parse_cpu_list(*online);
  const auto is_allowed = [&](int node) {
    return std::binary_search(allowed.begin(), allowed.end(), node);
  };
  // The kernel's own sum is better than ours.
  if (std::all_of(with_memory.begin(), with_memory.end(), is_allowed)) return no_limit;
  std::uint64_t left = 0;
  for (const int node : with_memory) {
    if (!is_allowed(node)) continue;
    const auto available = available_on_node(node, root);
    if (!available) return no_limit;
    left += *available;
  }
  return left;
}

}  // namespace

std::uint64_t available_memory(const fs::path& root) {
  const Numbers memory = numbers_in(root / "proc/meminfo");
  const auto kernel = memory.find("MemAvailable");
  return std::min({kernel == memory.end() ? no_limit : kernel->second * 1024, left_in_groups(root),
                   left_on_nodes(root)});
}

std::optional<std::uint64_t> available_on_node(int node, const fs::path& root) {
  const fs::path folder = root / "sys/devices/system/node" / ("node" + std::to_string(node));
  const Numbers memory = numbers_in(folder / "meminfo");
  if (!memory.contains("MemFree")) return std::nullopt;
  return 1024 * sum_of(memory, {"MemFree", "Active(file)", "Inactive(file)", "SReclaimable"});
}

void require_memory(double bytes, const std::string& what, const std::string& way_out) {
  const auto available = static_cast<double>(available_memory());
  if (bytes <= available) return;
  char sizes[80];
  std::snprintf(sizes, sizeof sizes, "about %.1f GiB of memory, and %.1f GiB", bytes / 0x1p30,
                available / 0x1p30);
  throw std::invalid_argument(what + " needs " + sizes + " are available; " + way_out);
}

}  // namespace pmoss::numa
