#include "numa/process_pages.hpp"

#include <cerrno>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace pmoss::numa {
namespace {

/// The number behind `name` and "=", as in "anon=4"; none if the word is another one.
std::optional<std::uint64_t> value_of(std::string_view word, std::string_view name) {
  if (!word.starts_with(name) || word.substr(name.size(), 1) != "=") return std::nullopt;
  const std::string_view digits = word.substr(name.size() + 1);
  std::uint64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// "N0=17" is 17 pages on node 0.
std::optional<std::pair<int, std::uint64_t>> pages_of(std::string_view word) {
  if (!word.starts_with('N')) return std::nullopt;
  int node = 0;
  const std::string_view digits = word.substr(1, word.find('=') - 1);
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), node);
  if (read.ec != std::errc() || digits.empty()) return std::nullopt;
  const auto pages = value_of(word, word.substr(0, digits.size() + 1));
  if (!pages) return std::nullopt;
  return std::pair{node, *pages};
}

/// A line: the mapping's address, its policy, and words about it.
void add_mapping(const std::string& line, ResidentPages& sum) {
  std::istringstream words(line);
  std::map<int, std::uint64_t> on_node;
  std::uint64_t page_kib = 4;
  bool own = false;
  for (std::string word; words >> word;) {
    own |= value_of(word, "anon").has_value() || word.starts_with("file=/memfd:");
    if (const auto kib = value_of(word, "kernelpagesize_kB")) page_kib = *kib;
    if (const auto pages = pages_of(word)) on_node[pages->first] += pages->second;
  }
  if (!own) return;
  for (const auto& [node, pages] : on_node) sum.on_node[node] += pages * page_kib / 4;
}

}  // namespace

ResidentPages process_pages(const std::filesystem::path& list) {
  ResidentPages result;
  std::ifstream file(list);
  std::string line;
  while (std::getline(file, line)) add_mapping(line, result);
  if (result.on_node.empty()) result.error_number = ENOENT;
  return result;
}

std::map<int, std::int64_t> grown(const ResidentPages& before, const ResidentPages& after) {
  std::map<int, std::int64_t> result;
  for (const auto& [node, pages] : after.on_node) result[node] += static_cast<std::int64_t>(pages);
  for (const auto& [node, pages] : before.on_node) result[node] -= static_cast<std::int64_t>(pages);
  return result;
}

}  // namespace pmoss::numa
