#include "pmu/events.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <system_error>

#include "pmu/file_descriptor.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pmoss::pmu {
namespace {

struct Description {
  std::string_view name;
  std::string_view unit;
};

constexpr std::array<Description, event_count> descriptions{{
    {"cycles", "cycles"},          {"instructions", "count"},        {"l1d_misses", "count"},
    {"l1i_misses", "count"},       {"llc_misses", "count"},          {"branch_misses", "count"},
    {"memory_misses", "count"},    {"dtlb_misses", "count"},         {"memory_accesses", "count"},
    {"llc_write_misses", "count"}, {"memory_write_misses", "count"}, {"local_dram", "count"},
    {"remote_dram", "count"},      {"cycles_l3_miss", "cycles"},     {"cycles_mem_any", "cycles"},
    {"task_clock", "ns"},          {"context_switches", "count"},    {"page_faults", "count"},
    {"cpu_migrations", "count"},
}};

constexpr std::uint64_t cache_event(std::uint64_t cache, std::uint64_t operation,
                                    std::uint64_t result) noexcept {
  return cache | (operation << 8) | (result << 16);
}

bool is_skylake_server(const CpuIdentity& cpu) noexcept {
  return cpu.intel && cpu.family == 6 &&
         cpu.model == 0x55;  // Skylake-SP/X, Cascade and Cooper Lake
}

bool is_skylake(const CpuIdentity& cpu) noexcept {
  if (!cpu.intel || cpu.family != 6) return false;
  switch (cpu.model) {
    case 0x4e:
    case 0x5e:  // Skylake client
    case 0x8e:
    case 0x9e:  // Kaby, Coffee, Whiskey Lake
    case 0xa5:
    case 0xa6:  // Comet Lake
      return true;
    default:
      return is_skylake_server(cpu);
  }
}

// With mesh interconnects and MEM_LOAD_L3_MISS_RETIRED.
bool is_mesh_server(const CpuIdentity& cpu) noexcept {
  if (!cpu.intel || cpu.family != 6) return false;
  switch (cpu.model) {
    case 0x6a:
    case 0x6c:  // Ice Lake-SP, -D
    case 0x8f:  // Sapphire Rapids
    case 0xcf:  // Emerald Rapids
      return true;
    default:
      return is_skylake_server(cpu);
  }
}

// With MEM_LOAD_UOPS_LLC_MISS_RETIRED, whose remote part has another unit mask.
bool is_ring_server(const CpuIdentity& cpu) noexcept {
  if (!cpu.intel || cpu.family != 6) return false;
  switch (cpu.model) {
    case 0x2d:  // Sandy Bridge-EP
    case 0x3e:  // Ivy Bridge-EP
    case 0x3f:  // Haswell-EP
    case 0x4f:
    case 0x56:  // Broadwell-EP, -DE
      return true;
    default:
      return false;
  }
}

// Demand fills of the data cache by where they came from (event 0x43), on all Zens.
bool is_zen(const CpuIdentity& cpu) noexcept {
  return cpu.amd && (cpu.family == 0x17 || cpu.family == 0x19 || cpu.family == 0x1a);
}

}  // namespace

std::string_view name_of(Event event) noexcept { return descriptions[index_of(event)].name; }
std::string_view unit_of(Event event) noexcept { return descriptions[index_of(event)].unit; }

std::string_view name_of(Availability::Source source) noexcept {
  switch (source) {
    case Availability::Source::hardware:
      return "hardware";
    case Availability::Source::software:
      return "software";
    case Availability::Source::none:
      break;
  }
  return "none";
}

CpuIdentity this_cpu() noexcept {
  CpuIdentity identity;
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return identity;
  identity.intel =
      ebx == signature_INTEL_ebx && ecx == signature_INTEL_ecx && edx == signature_INTEL_edx;
  identity.amd = ebx == signature_AMD_ebx && ecx == signature_AMD_ecx && edx == signature_AMD_edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return identity;
  const unsigned family = (eax >> 8) & 0xf;
  identity.family = family + (family == 0xf ? (eax >> 20) & 0xff : 0);
  identity.model = (eax >> 4) & 0xf;
  if (family == 0x6 || family == 0xf) identity.model |= ((eax >> 16) & 0xf) << 4;
#elif defined(__aarch64__)
  identity.arm = true;
#endif
  return identity;
}

Opener system_opener(int thread) {
  return [thread](perf_event_attr& attributes, int group) {
    constexpr int any_cpu = -1;
    const long descriptor = ::syscall(SYS_perf_event_open, &attributes, static_cast<pid_t>(thread),
                                      any_cpu, group, PERF_FLAG_FD_CLOEXEC);
    return descriptor >= 0 ? static_cast<int>(descriptor) : -errno;
  };
}

namespace detail {

bool encode(Event event, const CpuIdentity& cpu, perf_event_attr& attributes) noexcept {
  const auto set = [&](std::uint32_t type, std::uint64_t config) {
    attributes.type = type;
    attributes.config = config;
    return true;
  };
  const auto cache = [&](std::uint64_t id, std::uint64_t operation, std::uint64_t result) {
    return set(PERF_TYPE_HW_CACHE, cache_event(id, operation, result));
  };
  constexpr auto read = PERF_COUNT_HW_CACHE_OP_READ;
  constexpr auto write = PERF_COUNT_HW_CACHE_OP_WRITE;
  constexpr auto miss = PERF_COUNT_HW_CACHE_RESULT_MISS;
  constexpr auto access = PERF_COUNT_HW_CACHE_RESULT_ACCESS;

  switch (event) {
    case Event::cycles:
      return set(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
    case Event::instructions:
      return set(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
    case Event::branch_misses:
      return set(PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES);
    case Event::l1d_misses:
      return cache(PERF_COUNT_HW_CACHE_L1D, read, miss);
    case Event::l1i_misses:
      return cache(PERF_COUNT_HW_CACHE_L1I, read, miss);
    // Not the generic "cache misses": on some CPUs those are misses of the L2.
    case Event::llc_misses:
      return cache(PERF_COUNT_HW_CACHE_LL, read, miss);
    case Event::llc_write_misses:
      return cache(PERF_COUNT_HW_CACHE_LL, write, miss);
    case Event::dtlb_misses:
      return cache(PERF_COUNT_HW_CACHE_DTLB, read, miss);
    // The kernel's "node" cache is memory: a miss is an access to another node's.
    case Event::memory_accesses:
      return cache(PERF_COUNT_HW_CACHE_NODE, read, access);
    case Event::memory_misses:
      // Arm's REMOTE_ACCESS, an architected event that the kernel's table leaves out.
      if (cpu.arm) return set(PERF_TYPE_RAW, 0x31);
      return cache(PERF_COUNT_HW_CACHE_NODE, read, miss);
    case Event::memory_write_misses:
      return cache(PERF_COUNT_HW_CACHE_NODE, write, miss);
    // Raw codes: event, unit mask << 8, counter mask << 24. Other CPUs use the same numbers for
    // other things, so they are used on the CPUs whose manual lists them and nowhere else.
    case Event::local_dram:
      if (is_zen(cpu)) return set(PERF_TYPE_RAW, 0x0843);
      return (is_mesh_server(cpu) || is_ring_server(cpu)) && set(PERF_TYPE_RAW, 0x01d3);
    case Event::remote_dram:
      if (is_zen(cpu)) return set(PERF_TYPE_RAW, 0x4043);
      if (is_ring_server(cpu)) return set(PERF_TYPE_RAW, 0x04d3);
      return is_mesh_server(cpu) && set(PERF_TYPE_RAW, 0x02d3);
    case Event::cycles_l3_miss:
      return (is_skylake(cpu) || is_mesh_server(cpu)) && set(PERF_TYPE_RAW, 0x020002a3);
    case Event::cycles_mem_any:
      return (is_skylake(cpu) || is_mesh_server(cpu)) && set(PERF_TYPE_RAW, 0x100010a3);
    case Event::task_clock:
      return set(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);
    case Event::context_switches:
      return set(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES);
    case Event::page_faults:
      return set(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
    case Event::cpu_migrations:
      return set(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS);
  }
  return false;
}

bool encode(Event event, const CpuIdentity& cpu, const NameEncoder& names,
            perf_event_attr& attributes) {
  if (encode(event, cpu, attributes)) return true;
  if (!names) return false;
  const auto any_of = [&](std::initializer_list<const char*> candidates) {
    return std::any_of(candidates.begin(), candidates.end(),
                       [&](const char* name) { return names(name, attributes); });
  };
  // Newest generation first.
  switch (event) {
    case Event::local_dram:
      return any_of({"MEM_LOAD_L3_MISS_RETIRED:LOCAL_DRAM",
                     "MEM_LOAD_UOPS_L3_MISS_RETIRED:LOCAL_DRAM",
                     "MEM_LOAD_UOPS_LLC_MISS_RETIRED:LOCAL_DRAM"});
    case Event::remote_dram:
      return any_of({"MEM_LOAD_L3_MISS_RETIRED:REMOTE_DRAM",
                     "MEM_LOAD_UOPS_L3_MISS_RETIRED:REMOTE_DRAM",
                     "MEM_LOAD_UOPS_LLC_MISS_RETIRED:REMOTE_DRAM"});
    case Event::cycles_l3_miss:
      return any_of({"CYCLE_ACTIVITY:CYCLES_L3_MISS"});
    case Event::cycles_mem_any:
      return any_of({"CYCLE_ACTIVITY:CYCLES_MEM_ANY"});
    default:
      return false;
  }
}

std::string explain(int error_number) {
  const std::string text = std::generic_category().message(error_number);
  switch (error_number) {
    case ENOENT:
    case EOPNOTSUPP:
    case ENODEV:
    case EINVAL:
      return "unsupported: this CPU or virtual machine does not count it (" + text + ")";
    case EACCES:
    case EPERM:
      return "not permitted: lower kernel.perf_event_paranoid or grant CAP_PERFMON (" + text + ")";
    case ENOSYS:
      return "unsupported: this kernel has no perf events (" + text + ")";
    case EMFILE:
    case ENFILE:
      return "out of file descriptors: raise ulimit -n (" + text + ")";
    default:
      return "perf_event_open failed (" + text + ")";
  }
}

}  // namespace detail

std::vector<Availability> probe(const Opener& opener, const CpuIdentity& cpu,
                                const NameEncoder& names) {
  std::vector<Availability> answers;
  answers.reserve(event_count);
  for (std::size_t i = 0; i < event_count; ++i) {
    Availability answer;
    answer.event = static_cast<Event>(i);
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    if (!detail::encode(answer.event, cpu, names, attributes)) {
      answer.reason = detail::no_encoding;
      answers.push_back(std::move(answer));
      continue;
    }
    attributes.exclude_hv = 1;
    int descriptor = opener(attributes, -1);
    // The kernel counts these two events in its own mode only: without that they would always be 0.
    const bool kernel_only =
        answer.event == Event::context_switches || answer.event == Event::cpu_migrations;
    if ((descriptor == -EACCES || descriptor == -EPERM) && !kernel_only) {
      attributes.exclude_kernel = 1;
      descriptor = opener(attributes, -1);
      answer.user_only = descriptor >= 0;
    }
    if (descriptor >= 0) {
      const FileDescriptor opened(descriptor);
      answer.source = i < first_software_event ? Availability::Source::hardware
                                               : Availability::Source::software;
    } else {
      answer.error_number = -descriptor;
      answer.reason = detail::explain(answer.error_number);
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace pmoss::pmu
