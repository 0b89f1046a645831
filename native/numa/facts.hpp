// Settings of a host that change what a measurement means; recorded with every result.
#pragma once

#include <filesystem>
#include <string>

namespace pmoss::numa {

/// Text exactly as the kernel gives it, or "unknown". Nothing is guessed.
struct HostFacts {
  std::string cpu_model;
  std::string cpu_vendor;
  std::string kernel;                 ///< release, for example "6.1.0-18-amd64"
  std::string architecture;           ///< of the running kernel, for example "x86_64"
  std::string numa_balancing;         ///< "0", "1", "2", ...
  std::string transparent_hugepages;  ///< the selected mode: "always", "madvise" or "never"
  std::string perf_event_paranoid;
  std::string governor;    ///< CPU frequency governor of CPU 0
  std::string hypervisor;  ///< "yes" if the CPU says that it is virtual, else "no"
  /// How many CPUs' time the process's control groups give it, such as "2.5"; "none": no limit.
  std::string cpu_limit;
};

HostFacts read_facts(const std::filesystem::path& root = "/");

}  // namespace pmoss::numa
