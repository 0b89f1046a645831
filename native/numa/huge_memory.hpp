// Memory for large tables that are read here and there: on huge pages, where the kernel has them.
#pragma once

#include <cstddef>
#include <memory>

namespace pmoss::numa {

/// Zeroed memory that begins at a cache line. What a thread asks for lies side by side, so that
/// tables smaller than a huge page share one. Its pages go back to the system with its last owner.
/// Throws std::bad_alloc.
std::shared_ptr<std::byte> huge_memory(std::size_t bytes);

}  // namespace pmoss::numa
