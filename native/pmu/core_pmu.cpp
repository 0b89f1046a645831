#include "pmu/core_pmu.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "numa/sysfs.hpp"
#include "numa/topology.hpp"
#include "pmu/sysfs_events.hpp"

namespace pmoss::pmu {
namespace {

namespace fs = std::filesystem;

bool is_core_pmu(std::string_view name) {
  // Intel and AMD; then the names that kernels have given to the units of Arm's cores.
  constexpr std::array<std::string_view, 4> x86{"cpu", "cpu_core", "cpu_atom", "cpu_lowpower"};
  constexpr std::array<std::string_view, 3> arm{"armv8_", "armv9_", "apple_"};
  const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
  return std::find(x86.begin(), x86.end(), name) != x86.end() ||
         std::any_of(arm.begin(), arm.end(), begins);
}

/// Bit n: the kernel lists the event first + n.
std::uint64_t common_events(const fs::path& pmu, std::uint64_t first) {
  std::uint64_t events = 0;
  for (const auto& [name, fields] : listed_events(pmu)) {
    if (fields.size() != 1 || fields.front().first != "event") continue;
    const std::uint64_t number = fields.front().second - first;
    if (number < 64) events |= std::uint64_t{1} << number;
  }
  return events;
}

}  // namespace

std::optional<CorePmu> core_pmu_of(int cpu, const fs::path& root) {
  std::vector<fs::path> units;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root / "sys/bus/event_source/devices", ignored)) {
    if (is_core_pmu(entry.path().filename().string())) units.push_back(entry.path());
  }
  std::sort(units.begin(), units.end());
  for (const fs::path& unit : units) {
    // "cpu" of CPUs with one kind of core has no such list.
    const auto cpus = sysfs::read_text(unit / "cpus");
    const auto type = sysfs::read_integer(unit / "type");
    if (!type || *type < 0) continue;
    if (cpus) {
      const std::vector<int> own = numa::parse_cpu_list(*cpus);
      if (std::find(own.begin(), own.end(), cpu) == own.end()) continue;
    }
    return CorePmu{unit.filename().string(), static_cast<std::uint32_t>(*type), units.size() > 1,
                   common_events(unit, 0), common_events(unit, first_extended_arm_event)};
  }
  return std::nullopt;
}

}  // namespace pmoss::pmu
