// No such fence: each reader makes its own.
#include "index/kernel_barrier.hpp"

namespace pmoss {

bool may_order_all_threads() noexcept { return false; }

bool order_all_threads() noexcept { return false; }

}  // namespace pmoss
