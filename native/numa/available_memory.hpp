// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace pmoss::numa {

/// Bytes that this process may still take; the largest number if nothing is known. The least of
/// three: what the kernel calls available, what the nodes have that the process may use, and what
/// each control group above the process leaves. Page cache can be reclaimed, so it counts as free.
/// Reads proc/ and sys/ below `root`.
std::uint64_t available_memory(const std::filesystem::path& root = "/");

/// Bytes that one node may still give, page cache included; nothing if the kernel does not say.
std::optional<std::uint64_t> available_on_node(int node, const std::filesystem::path& root = "/");

/// Throws std::invalid_argument, naming `what`, its size and `way_out`, if it needs more.
void require_memory(double bytes, const std::string& what, const std::string& way_out);

}  // namespace pmoss::numa
