// The performance monitoring unit of the core that a thread runs on. Hybrid CPUs have several kinds
// of core with a unit each, and an event of one kind never runs on the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace pmoss::pmu {

inline constexpr std::uint64_t first_extended_arm_event = 0x4000;

struct CorePmu {
  std::string name;        ///< "cpu", "cpu_core", "cpu_atom", "armv8_pmuv3_0", ...
  std::uint32_t type = 0;  ///< of perf_event_attr
  bool one_of_several = false;
  /// Bit n: the common Arm event n is implemented (PMCEID0_EL0 and PMCEID1_EL0), as far as the
  /// kernel lists it by name. The registers themselves cannot be read in user mode.
  std::uint64_t arm_events = 0;
  /// Likewise of the common events from first_extended_arm_event on.
  std::uint64_t arm_extended_events = 0;
};

/// The unit of a CPU; nothing where the kernel lists none for it.
std::optional<CorePmu> core_pmu_of(int cpu, const std::filesystem::path& root = "/");

}  // namespace pmoss::pmu
