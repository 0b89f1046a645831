#include "pmu/offcore.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string_view>

#include "numa/sysfs.hpp"
#include "numa/topology.hpp"
#include "pmu/events.hpp"

namespace pmoss::pmu {
namespace {

namespace fs = std::filesystem;

/// What one kind of unit counts. Fields are put where the unit's format files say.
struct Kind {
  std::string_view prefix;
  std::string_view quantity;
  std::vector<std::pair<std::string_view, std::uint64_t>> fields;
  double bytes_per_count;
};

// Intel: CAS_COUNT.RD and .WR, 64 bytes each; on links TxL_FLITS and RxL_FLITS.ALL_DATA, of which
// nine carry a line. AMD: CAS commands by kind.
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"uncore_imc_", "read", {{"event", 0x04}, {"umask", 0x03}}, 64.0},
      {"uncore_imc_", "write", {{"event", 0x04}, {"umask", 0x0c}}, 64.0},
      {"amd_umc_", "read", {{"event", 0x0a}, {"rdwrmask", 0x1}}, 64.0},
      {"amd_umc_", "write", {{"event", 0x0a}, {"rdwrmask", 0x2}}, 64.0},
      {"uncore_upi_", "link_out", {{"event", 0x02}, {"umask", 0x0f}}, 64.0 / 9.0},
      {"uncore_upi_", "link_in", {{"event", 0x03}, {"umask", 0x0f}}, 64.0 / 9.0},
  };
  return all;
}

bool is_unit(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  const std::string_view number = name.substr(prefix.size());
  // Not "uncore_imc_free_running_0".
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

// "config:8-15" -> 8. Fields that are split over several ranges are not among those used here.
std::optional<unsigned> first_bit(const fs::path& format) {
  const auto text = sysfs::read_text(format);
  if (!text || !text->starts_with("config:")) return std::nullopt;
  const auto bits = text->substr(std::string_view("config:").size());
  const auto first = sysfs::parse_integer(bits.substr(0, bits.find_first_of("-,")));
  if (!first || *first < 0 || *first > 63) return std::nullopt;
  return static_cast<unsigned>(*first);
}

// The kernel's own numbers for the counts of a memory controller, where it lists them: they differ
// between generations ("event=0x05,umask=0xcf").
std::vector<std::pair<std::string, std::uint64_t>> fields_of(const fs::path& unit,
                                                             const Kind& kind) {
  std::vector<std::pair<std::string, std::uint64_t>> fields;
  const auto listed =
      sysfs::read_text(unit / "events" / ("cas_count_" + std::string(kind.quantity)));
  if (kind.prefix == "uncore_imc_" && listed) {
    std::string_view rest = *listed;
    while (!rest.empty()) {
      const std::string_view part = rest.substr(0, rest.find(','));
      rest = part.size() == rest.size() ? std::string_view{} : rest.substr(part.size() + 1);
      const auto equals = part.find('=');
      if (equals == std::string_view::npos) continue;
      fields.emplace_back(std::string(part.substr(0, equals)),
                          std::stoull(std::string(part.substr(equals + 1)), nullptr, 0));
    }
    return fields;
  }
  for (const auto& [name, value] : kind.fields) fields.emplace_back(std::string(name), value);
  return fields;
}

std::optional<std::uint64_t> encode(const fs::path& unit, const Kind& kind) {
  std::uint64_t config = 0;
  for (const auto& [name, value] : fields_of(unit, kind)) {
    const auto bit = first_bit(unit / "format" / name);
    if (!bit) return std::nullopt;
    config |= value << *bit;
  }
  return config;
}

}  // namespace

CpuOpener system_cpu_opener() {
  return [](perf_event_attr& attributes, int cpu) {
    constexpr pid_t any_thread = -1;
    const long descriptor =
        ::syscall(SYS_perf_event_open, &attributes, any_thread, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return descriptor >= 0 ? static_cast<int>(descriptor) : -errno;
  };
}

OffcoreCounters::OffcoreCounters(const fs::path& root, const CpuOpener& opener) {
  const fs::path devices = root / "sys/bus/event_source/devices";
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(devices, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::map<std::string, std::size_t> known;
  std::optional<numa::Topology> topology;
  for (const Kind& kind : kinds()) {
    for (const std::string& name : names) {
      if (!is_unit(name, kind.prefix)) continue;
      const fs::path unit = devices / name;
      const auto type = sysfs::read_integer(unit / "type");
      const auto cpus = sysfs::read_text(unit / "cpumask");
      const auto config = encode(unit, kind);
      if (!type || !cpus || !config) continue;
      if (!topology) topology = numa::read_topology(root);
      for (const int cpu : numa::parse_cpu_list(*cpus)) {
        const numa::Cpu* const home = topology->find(cpu);
        if (home == nullptr) continue;
        const std::string quantity_name =
            "node" + std::to_string(home->node) + "_" + std::string(kind.quantity) + "_gb_per_s";
        const auto [at, fresh] = known.emplace(quantity_name, quantities_.size());
        if (fresh) quantities_.push_back({quantity_name, 0, 0, ""});
        OffcoreQuantity& quantity = quantities_[at->second];
        perf_event_attr attributes{};
        attributes.size = sizeof attributes;
        attributes.type = static_cast<std::uint32_t>(*type);
        attributes.config = *config;
        const int descriptor = opener(attributes, cpu);
        if (descriptor < 0) {
          quantity.error_number = -descriptor;
          quantity.reason = detail::explain(-descriptor);
          continue;
        }
        ++quantity.events;
        sources_.push_back({at->second, kind.bytes_per_count, FileDescriptor(descriptor)});
      }
    }
  }
}

std::vector<double> OffcoreCounters::read_bytes() const {
  std::vector<double> bytes(quantities_.size(), 0.0);
  for (const Source& source : sources_) {
    std::uint64_t count = 0;
    if (::read(source.descriptor.get(), &count, sizeof count) ==
        static_cast<ssize_t>(sizeof count)) {
      bytes[source.quantity] += static_cast<double>(count) * source.bytes_per_count;
    }
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!quantities_[i].available()) bytes[i] = 0.0;
  }
  return bytes;
}

}  // namespace pmoss::pmu
