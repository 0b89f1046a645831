#include "numa/affinity.hpp"

#include <sched.h>

#include <cerrno>
#include <memory>
#include <string>

namespace pmoss::numa {
namespace {

// A CPU set of run-time size: the fixed cpu_set_t ends at 1024 CPUs.
class CpuSet {
 public:
  explicit CpuSet(int cpus)
      : set_(CPU_ALLOC(static_cast<std::size_t>(cpus))),
        bytes_(CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus))) {
    if (!set_) throw std::bad_alloc();
    CPU_ZERO_S(bytes_, set_.get());
  }
  void add(int cpu) noexcept { CPU_SET_S(static_cast<std::size_t>(cpu), bytes_, set_.get()); }
  bool contains(int cpu) const noexcept {
    return CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes_, set_.get());
  }
  cpu_set_t* get() const noexcept { return set_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Free {
    void operator()(cpu_set_t* set) const noexcept { CPU_FREE(set); }
  };
  std::unique_ptr<cpu_set_t, Free> set_;
  std::size_t bytes_;
};

constexpr int largest_set = 1 << 16;

}  // namespace

AffinityError::AffinityError(int cpu, int error_number)
    : std::system_error(error_number, std::generic_category(),
                        "cannot bind a thread to CPU " + std::to_string(cpu)),
      cpu_(cpu) {}

std::vector<int> allowed_cpus() {
  // The kernel answers EINVAL while the set is smaller than its own.
  for (int size = 1024; size <= largest_set; size *= 4) {
    const CpuSet set(size);
    if (sched_getaffinity(0, set.bytes(), set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> cpus;
    for (int cpu = 0; cpu < size; ++cpu) {
      if (set.contains(cpu)) cpus.push_back(cpu);
    }
    return cpus;
  }
  throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
}

void pin_thread(int cpu) {
  if (cpu < 0 || cpu >= largest_set) throw AffinityError(cpu, EINVAL);
  CpuSet set(cpu + 1);
  set.add(cpu);
  if (sched_setaffinity(0, set.bytes(), set.get()) != 0) throw AffinityError(cpu, errno);
}

int current_cpu() noexcept { return sched_getcpu(); }

}  // namespace pmoss::numa
