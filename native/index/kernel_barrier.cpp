#include "index/kernel_barrier.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "index/racy.hpp"

namespace pmoss {
namespace {

// <linux/membarrier.h> of older systems lacks them.
constexpr int private_expedited = 1 << 3;
constexpr int register_private_expedited = 1 << 4;

int membarrier(int command) noexcept {
#if defined(SYS_membarrier) && !PMOSS_TSAN
  return static_cast<int>(::syscall(SYS_membarrier, command, 0));
#else
  static_cast<void>(command);  // ThreadSanitizer does not know what it does
  return -1;
#endif
}

}  // namespace

bool may_order_all_threads() noexcept { return membarrier(register_private_expedited) == 0; }

bool order_all_threads() noexcept { return membarrier(private_expedited) == 0; }

}  // namespace pmoss
