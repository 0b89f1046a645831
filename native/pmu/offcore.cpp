#include "pmu/offcore.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "numa/sysfs.hpp"
#include "numa/topology.hpp"
#include "pmu/sysfs_events.hpp"

namespace pmoss::pmu {
namespace {

namespace fs = std::filesystem;

/// One quantity of one kind of unit, by the events that the kernel lists for it.
struct ListedKind {
  std::string_view prefix;
  std::string_view event;  ///< all events whose names begin so are added up
  std::string_view quantity;
  double bytes_per_count;  ///< where the kernel gives no scale
};

// Intel: cas_count_read, which Granite Rapids and Sierra Forest split over two schedulers
// (cas_count_read_sch0, _sch1). NVIDIA's scalable coherency fabric: reads in parts of 32 bytes.
// Arm's mesh: requests to memory, of a line each.
constexpr std::array listed_kinds{
    ListedKind{"uncore_imc_", "cas_count_read", "read", 64.0},
    ListedKind{"uncore_imc_", "cas_count_write", "write", 64.0},
    ListedKind{"nvidia_scf_pmu_", "cmem_rd_data", "read", 32.0},
    ListedKind{"nvidia_scf_pmu_", "cmem_wr_total_bytes", "write", 1.0},
    ListedKind{"arm_cmn_", "hnf_mc_reqs", "memory", 64.0},
};

/// One whose code is in the manuals of some CPUs alone: others use it for other things.
struct CodedKind {
  std::string_view prefix;
  std::string_view quantity;
  bool (*fits)(const CpuIdentity&) noexcept;
  std::vector<EventFields> events;
  double bytes_per_count;
};

bool has_upi_flits(const CpuIdentity& cpu) noexcept {
  // Skylake-SP, Cascade and Cooper Lake, Ice Lake-SP and -D, Sapphire, Emerald and Granite Rapids:
  // Intel's lists of uncore events.
  constexpr std::array models{0x55U, 0x6aU, 0x6cU, 0x8fU, 0xcfU, 0xadU, 0xaeU};
  return cpu.intel && cpu.family == 6 &&
         std::find(models.begin(), models.end(), cpu.model) != models.end();
}

// Linux lists the controllers of Zen 4 and later only.
bool has_umc(const CpuIdentity& cpu) noexcept {
  return cpu.amd && (cpu.family == 0x19 || cpu.family == 0x1a);
}

bool has_eight_channels_in_fabric(const CpuIdentity& cpu) noexcept {
  // Zen 1 to 3. Of family 0x19, models 0x10 and later are Zen 4, but for Zen 3 from 0x20 to 0x5f.
  return cpu.amd && (cpu.family == 0x17 || (cpu.family == 0x19 && cpu.model < 0x10));
}

// Intel: TxL_FLITS and RxL_FLITS.ALL_DATA, of which nine carry a line. AMD: CAS commands by kind;
// before Zen 4, requests with data of each channel, reads and writes together.
const std::vector<CodedKind>& coded_kinds() {
  static const std::vector<CodedKind> all = [] {
    std::vector<EventFields> channels;
    for (std::uint64_t channel = 0; channel < 8; ++channel) {
      channels.push_back({{"event", 0x07 + 0x40 * channel}, {"umask", 0x38}});
    }
    return std::vector<CodedKind>{
        {"uncore_upi_", "link_out", &has_upi_flits, {{{"event", 0x02}, {"umask", 0x0f}}}, 64.0 / 9},
        {"uncore_upi_", "link_in", &has_upi_flits, {{{"event", 0x03}, {"umask", 0x0f}}}, 64.0 / 9},
        {"amd_umc_", "read", &has_umc, {{{"event", 0x0a}, {"rdwrmask", 0x1}}}, 64.0},
        {"amd_umc_", "write", &has_umc, {{{"event", 0x0a}, {"rdwrmask", 0x2}}}, 64.0},
        {"amd_df", "memory", &has_eight_channels_in_fabric, std::move(channels), 64.0},
    };
  }();
  return all;
}

/// One unit of a kind, "amd_df" itself or one with a number behind: not
/// "uncore_imc_free_running_0".
bool is_unit(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  const std::string_view number = name.substr(prefix.size());
  if (number.empty()) return prefix.back() != '_';
  return number.find_first_not_of("0123456789") == std::string_view::npos;
}

struct Counted {
  std::string quantity;
  EventFields fields;
  double bytes_per_count;
};

/// The kind of a unit: its name without the number behind.
std::string kind_of(const fs::path& unit) {
  const std::string name = unit.filename().string();
  return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

/// What a unit counts of the quantities above.
std::vector<Counted> counted_by(const fs::path& unit, const CpuIdentity& cpu) {
  const std::string name = unit.filename().string();
  std::vector<Counted> result;
  for (const ListedKind& kind : listed_kinds) {
    if (!is_unit(name, kind.prefix)) continue;
    for (auto& [event, fields] : listed_events(unit)) {
      if (!event.starts_with(kind.event)) continue;
      const double bytes = listed_bytes(unit, event).value_or(kind.bytes_per_count);
      result.push_back({std::string(kind.quantity), std::move(fields), bytes});
    }
  }
  for (const CodedKind& kind : coded_kinds()) {
    if (!is_unit(name, kind.prefix) || !kind.fits(cpu)) continue;
    for (const EventFields& fields : kind.events) {
      result.push_back({std::string(kind.quantity), fields, kind.bytes_per_count});
    }
  }
  return result;
}

/// A unit, and one of the CPUs that the kernel names for it.
struct Reader {
  fs::path unit;
  std::vector<Counted> counted;
  std::uint32_t type;
  numa::Cpu home;
};

/// "node2" where the units of this kind have a CPU on each node of the package, else "socket1": the
/// kernel names one CPU per package, whichever node a channel belongs to.
std::string place_of(const Reader& reader, const std::vector<Reader>& readers,
                     const numa::Topology& topology) {
  std::set<int> nodes;
  for (const numa::Cpu& cpu : topology.cpus) {
    if (cpu.package == reader.home.package) nodes.insert(cpu.node);
  }
  std::set<int> named;
  for (const Reader& other : readers) {
    if (other.home.package == reader.home.package && kind_of(other.unit) == kind_of(reader.unit)) {
      named.insert(other.home.node);
    }
  }
  if (named == nodes) return "node" + std::to_string(reader.home.node);
  return "socket" + std::to_string(reader.home.package);
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

OffcoreCounters::OffcoreCounters(const fs::path& root, const CpuOpener& opener,
                                 const CpuIdentity& cpu) {
  std::vector<fs::path> units;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root / "sys/bus/event_source/devices", ignored)) {
    units.push_back(entry.path());
  }
  std::sort(units.begin(), units.end());
  std::optional<numa::Topology> topology;
  std::vector<Reader> readers;
  for (const fs::path& unit : units) {
    const auto counted = counted_by(unit, cpu);
    const auto type = sysfs::read_integer(unit / "type");
    const auto cpus = sysfs::read_text(unit / "cpumask");
    if (counted.empty() || !type || !cpus) continue;
    if (!topology) topology = numa::read_topology(root);
    for (const int reader : numa::parse_cpu_list(*cpus)) {
      if (const numa::Cpu* const home = topology->find(reader)) {
        readers.push_back({unit, counted, static_cast<std::uint32_t>(*type), *home});
      }
    }
  }
  for (const Reader& reader : readers) {
    const std::string place = place_of(reader, readers, *topology);
    for (const Counted& event : reader.counted) {
      perf_event_attr attributes{};
      attributes.size = sizeof attributes;
      attributes.type = reader.type;
      attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
      if (!place_fields(reader.unit, event.fields, attributes)) continue;
      open(place + "_" + event.quantity + "_gb_per_s", event.bytes_per_count,
           opener(attributes, reader.home.id));
    }
  }
}

void OffcoreCounters::open(const std::string& name, double bytes_per_count, int descriptor) {
  const auto same_name = std::find_if(quantities_.begin(), quantities_.end(),
                                      [&](const auto& quantity) { return quantity.name == name; });
  const auto at = static_cast<std::size_t>(same_name - quantities_.begin());
  if (same_name == quantities_.end()) quantities_.push_back({name, 0, 0, ""});
  OffcoreQuantity& quantity = quantities_[at];
  if (descriptor < 0) {
    quantity.error_number = -descriptor;
    quantity.reason = detail::explain(-descriptor);
    return;
  }
  ++quantity.events;
  sources_.push_back({at, bytes_per_count, FileDescriptor(descriptor)});
}

std::vector<OffcoreCounters::Counts> OffcoreCounters::read() const {
  std::vector<Counts> counts(sources_.size());
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    // What cannot be read is no time that it ran.
    Counts now;
    if (::read(sources_[i].descriptor.get(), &now, sizeof now) ==
        static_cast<ssize_t>(sizeof now)) {
      counts[i] = now;
    }
  }
  return counts;
}

std::vector<double> OffcoreCounters::bytes_between(const std::vector<Counts>& begin,
                                                   const std::vector<Counts>& end) const {
  std::vector<double> bytes(quantities_.size(), 0.0);
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (!quantities_[source.quantity].available()) continue;
    if (end[i].running_ns <= begin[i].running_ns) continue;
    const auto enabled = static_cast<double>(end[i].enabled_ns - begin[i].enabled_ns);
    const auto running = static_cast<double>(end[i].running_ns - begin[i].running_ns);
    const auto counted = static_cast<double>(end[i].value - begin[i].value);
    bytes[source.quantity] += counted * (enabled / running) * source.bytes_per_count;
  }
  return bytes;
}

std::vector<OffcoreQuantity> OffcoreCounters::quantities_between(
    const std::vector<Counts>& begin, const std::vector<Counts>& end) const {
  std::vector<OffcoreQuantity> result = quantities_;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    OffcoreQuantity& quantity = result[sources_[i].quantity];
    if (!quantity.available() || end[i].running_ns > begin[i].running_ns) continue;
    // A part of a node's channels would be taken for all of them.
    quantity.events = 0;
    quantity.reason = "an event had no time on the counters in this measurement";
  }
  return result;
}

}  // namespace pmoss::pmu
