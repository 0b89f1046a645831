#include "numa/available_memory.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

namespace pmoss::numa {
namespace {

/// The number at the start of a file; nothing if there is no file or no number ("max").
std::optional<std::uint64_t> number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

}  // namespace

std::uint64_t available_memory(const std::filesystem::path& root) {
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  std::ifstream meminfo(root / "proc/meminfo");
  std::string word;
  while (meminfo >> word) {
    std::uint64_t kibibytes = 0;
    if (word == "MemAvailable:" && meminfo >> kibibytes) available = kibibytes * 1024;
  }
  const auto group = root / "sys/fs/cgroup";
  const auto limit = number_in(group / "memory.max");
  const auto used = number_in(group / "memory.current");
  if (limit && used) available = std::min(available, *limit - std::min(*limit, *used));
  return available;
}

void require_memory(double bytes, const std::string& what, const std::string& way_out) {
  const auto available = static_cast<double>(available_memory());
  if (bytes <= available) return;
  char sizes[80];
  std::snprintf(sizes, sizeof sizes, "about %.1f GiB of memory, and %.1f GiB", bytes / 0x1p30,
                available / 0x1p30);
  throw std::invalid_argument(what + " needs " + sizes + " are available; " + way_out);
}

}  // namespace pmoss::numa
