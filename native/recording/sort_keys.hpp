// Sorting many 64-bit keys fast.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pmoss::recording {

/// Ascending; a radix sort from the top digit, which needs as much memory again.
void sort_keys(std::vector<std::uint64_t>& keys);
/// The same in memory of the caller's: `scratch` is at least as long as the keys.
void sort_keys(std::span<std::uint64_t> keys, std::span<std::uint64_t> scratch);

}  // namespace pmoss::recording
