// Small readers for the one-value files of /sys and /proc. A missing file is an ordinary answer
// there (virtual machines and containers hide many), so it is no error here.
#pragma once

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace pmoss::sysfs {

inline std::string_view trim(std::string_view text) noexcept {
  constexpr std::string_view blank = " \t\r\n";
  const auto first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// The whole file without surrounding blanks; nothing if it cannot be read.
inline std::optional<std::string> read_text(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return std::nullopt;
  std::ostringstream content;
  content << in.rdbuf();
  // An empty file leaves the fail bit on the destination only; both mean "no value".
  return std::string(trim(content.str()));
}

inline std::optional<long long> parse_integer(std::string_view text) noexcept {
  text = trim(text);
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

inline std::optional<long long> read_integer(const std::filesystem::path& file) {
  const auto text = read_text(file);
  return text ? parse_integer(*text) : std::nullopt;
}

}  // namespace pmoss::sysfs
