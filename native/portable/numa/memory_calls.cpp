// Without libnuma: memory lies where the system puts it.
#include <cerrno>

#include "numa/memory.hpp"

namespace pmoss::numa {

std::vector<int> memory_nodes() { return {0}; }

int refused_placement() { return ENOTSUP; }

int set_placement(void*, std::size_t, const Placement& placement) noexcept {
  return placement.kind == Placement::Kind::first_touch ? 0 : ENOTSUP;
}

bool is_huge_page(const void*) noexcept { return false; }

PageCall system_page_call() {
  return [](std::size_t, void**, const int*, int*) {
    errno = ENOTSUP;
    return -1L;
  };
}

}  // namespace pmoss::numa
