#include "pmu/sysfs_events.hpp"

#include <linux/perf_event.h>

#include <charconv>
#include <utility>

#include "numa/sysfs.hpp"

namespace pmoss::pmu {
namespace {

namespace fs = std::filesystem;

/// The part before `separator`, which is taken off `rest` together with the separator.
std::string_view next_part(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return part;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, hexadecimal ? 16 : 10);
  if (error != std::errc{} || end != last) return std::nullopt;
  return value;
}

__u64* word_of(std::string_view name, perf_event_attr& attributes) {
  if (name == "config") return &attributes.config;
  if (name == "config1") return &attributes.config1;
  if (name == "config2") return &attributes.config2;
  return nullptr;
}

/// Spreads a value over ranges of bits, its lowest bits first.
bool place(std::string_view format, std::uint64_t value, perf_event_attr& attributes) {
  __u64* const word = word_of(next_part(format, ':'), attributes);
  if (word == nullptr || format.empty()) return false;
  while (!format.empty()) {
    std::string_view range = next_part(format, ',');
    const auto first = parse_number(next_part(range, '-'));
    const auto last = range.empty() ? first : parse_number(range);
    if (!first || !last || *first > *last || *last > 63) return false;
    const std::uint64_t bits = *last - *first + 1;
    const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    *word |= (value & mask) << *first;
    value = bits == 64 ? 0 : value >> bits;
  }
  return value == 0;
}

}  // namespace

std::optional<EventFields> parse_event(std::string_view text) {
  EventFields fields;
  while (!text.empty()) {
    std::string_view value = next_part(text, ',');
    const std::string_view name = next_part(value, '=');
    const auto number = value.empty() ? std::optional<std::uint64_t>(1) : parse_number(value);
    if (name.empty() || !number) return std::nullopt;
    fields.emplace_back(std::string(name), *number);
  }
  if (fields.empty()) return std::nullopt;
  return fields;
}

std::map<std::string, EventFields> listed_events(const fs::path& pmu) {
  std::map<std::string, EventFields> events;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(pmu / "events", ignored)) {
    if (entry.path().has_extension()) continue;  // ".scale", ".unit", ".per-pkg"
    const auto text = sysfs::read_text(entry.path());
    auto fields = text ? parse_event(*text) : std::nullopt;
    if (fields) events.emplace(entry.path().filename().string(), std::move(*fields));
  }
  return events;
}

bool place_fields(const fs::path& pmu, const EventFields& fields, perf_event_attr& attributes) {
  for (const auto& [name, value] : fields) {
    const auto format = sysfs::read_text(pmu / "format" / name);
    if (!format || !place(*format, value, attributes)) return false;
  }
  return true;
}

std::optional<double> listed_bytes(const fs::path& pmu, const std::string& event) {
  const auto scale = sysfs::read_text(pmu / "events" / (event + ".scale"));
  const auto unit = sysfs::read_text(pmu / "events" / (event + ".unit"));
  if (!scale || !unit) return std::nullopt;
  double unit_bytes = 0.0;
  if (*unit == "MiB") unit_bytes = 1024.0 * 1024.0;
  if (*unit == "KiB") unit_bytes = 1024.0;
  if (*unit == "Bytes" || *unit == "bytes" || *unit == "B") unit_bytes = 1.0;
  double factor = 0.0;
  const auto [end, error] = std::from_chars(scale->data(), scale->data() + scale->size(), factor);
  if (error != std::errc{} || end != scale->data() + scale->size()) return std::nullopt;
  if (!(factor * unit_bytes > 0.0)) return std::nullopt;
  return factor * unit_bytes;
}

}  // namespace pmoss::pmu
