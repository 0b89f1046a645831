// Without the system calls: memory lies where the system puts it.
#include <cerrno>

#include "numa/memory.hpp"

namespace pmoss::numa {

int set_placement(void*, std::size_t, const Placement& placement) noexcept {
  return placement.kind == Placement::Kind::first_touch ? 0 : ENOSYS;
}

bool is_huge_page(const void*) noexcept { return false; }

PageCall system_page_call() {
  return [](std::size_t, void**, const int*, int*) {
    errno = ENOSYS;
    return -1L;
  };
}

}  // namespace pmoss::numa
