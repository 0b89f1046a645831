// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace pmoss::numa {

/// Bytes that the kernel calls available, or what is left of the control group's limit if that is
/// less; the largest number if neither is known.
std::uint64_t available_memory(const std::filesystem::path& root = "/");

/// Throws std::invalid_argument, naming `what`, its size and `way_out`, if it needs more.
void require_memory(double bytes, const std::string& what, const std::string& way_out);

}  // namespace pmoss::numa
