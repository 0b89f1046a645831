// Where the memory of this process lies, of whatever allocator.
#pragma once

#include <filesystem>

#include "numa/memory.hpp"

namespace pmoss::numa {

/// The pages that the process has written to, by node: those without a file, and those of files in
/// memory (memfd_create). The kernel lists them in `list`. Where it does not, the error is ENOENT.
/// Shared libraries and other files of disks are left out.
ResidentPages process_pages(const std::filesystem::path& list = "/proc/self/numa_maps");

/// What came between two lists, by node: below 0 where pages have gone.
std::map<int, std::int64_t> grown(const ResidentPages& before, const ResidentPages& after);

}  // namespace pmoss::numa
