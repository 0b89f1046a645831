// Events as the kernel describes them for each PMU: names in events/, places of fields in format/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct perf_event_attr;

namespace pmoss::pmu {

/// "event=0x05,umask=0xcf" as pairs; a word without a value counts 1. Nothing if it is malformed.
using EventFields = std::vector<std::pair<std::string, std::uint64_t>>;
std::optional<EventFields> parse_event(std::string_view text);

/// The events of a PMU's folder: by name, without the files of their scales and units.
std::map<std::string, EventFields> listed_events(const std::filesystem::path& pmu);

/// Puts the fields where the PMU's format files say ("config:0-7,32-35", "config1:1"). False if a
/// field has no format, or a value does not fit.
bool place_fields(const std::filesystem::path& pmu, const EventFields& fields,
                  perf_event_attr& attributes);

/// Bytes per count of a listed event, by its .scale and .unit ("MiB"); nothing without both.
std::optional<double> listed_bytes(const std::filesystem::path& pmu, const std::string& event);

}  // namespace pmoss::pmu
