// Sorting many 64-bit keys fast.
#pragma once

#include <cstdint>
#include <vector>

namespace pmoss::recording {

/// Ascending; a radix sort from the top digit, which needs as much memory again.
void sort_keys(std::vector<std::uint64_t>& keys);

}  // namespace pmoss::recording
