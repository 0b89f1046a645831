// What a user's library must leave as it is: the CPUs of threads, processes, memory.
#pragma once

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <vector>

#include "kinds/plugin_library.hpp"

namespace pmoss::kinds {

/// The CPUs that the calling thread may run on; empty if the kernel does not say.
inline std::vector<std::uint8_t> allowed_cpus() {
  std::vector<std::uint8_t> mask(8192);
  const long bytes = ::sched_getaffinity(0, mask.size(), reinterpret_cast<cpu_set_t*>(mask.data()));
  if (bytes != 0) mask.clear();
  return mask;
}

/// Throws if the library has changed where the calling thread may run.
class SameCpus {
 public:
  explicit SameCpus(const PluginLibrary& library) : library_(library) {}

  void require() const {
    if (allowed_cpus() == before_) return;
    throw library_.error(
        "the library changes the CPUs of threads that call it (sched_setaffinity): the placement "
        "that is measured would not be the one that was asked for");
  }

 private:
  const PluginLibrary& library_;
  std::vector<std::uint8_t> before_ = allowed_cpus();
};

/// Knows of processes that the library starts, also of those whose parent has ended.
class NoProcesses {
 public:
  NoProcesses() {
    ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1UL);
    had_some_ = exist();
  }
  ~NoProcesses() { ::prctl(PR_SET_CHILD_SUBREAPER, static_cast<unsigned long>(before_)); }
  NoProcesses(const NoProcesses&) = delete;
  NoProcesses& operator=(const NoProcesses&) = delete;

  void require(const PluginLibrary& library) const {
    if (had_some_ || !exist()) return;
    throw library.error(
        "the library starts processes (fork): they would run beside the measurement, and after it");
  }

 private:
  static bool exist() {
    siginfo_t info{};
    return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  }

  int before_ = 0;
  bool had_some_ = false;
};

/// Bytes of this process in memory; 0 if the kernel does not say.
inline std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace pmoss::kinds
