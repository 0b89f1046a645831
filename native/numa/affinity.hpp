// On which CPUs this process may run, and binding a thread to one of them.
#pragma once

#include <system_error>
#include <vector>

namespace pmoss::numa {

/// A thread could not be bound to a CPU: it is offline, outside of the process's CPU set, or
/// absent.
class AffinityError : public std::system_error {
 public:
  AffinityError(int cpu, int error_number);
  int cpu() const noexcept { return cpu_; }

 private:
  int cpu_;
};

/// The CPUs that the calling thread may use, ascending. Containers and batch systems often allow
/// fewer than are online.
std::vector<int> allowed_cpus();

/// Binds the calling thread to one CPU. Throws AffinityError.
void pin_thread(int cpu);

/// The CPU that the calling thread runs on at this moment, or -1 if the kernel does not say.
int current_cpu() noexcept;

}  // namespace pmoss::numa
