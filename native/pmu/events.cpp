#include "pmu/events.hpp"

#include <linux/perf_event.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>
#include <system_error>

#include "counters/encodings.hpp"
#include "pmu/core_pmu.hpp"
#include "pmu/file_descriptor.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pmoss::pmu {
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

namespace {

CpuIdentity kind_of_cpu() noexcept {
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

}  // namespace

CpuIdentity this_cpu() {
  CpuIdentity identity = kind_of_cpu();
  const auto pmu = core_pmu_of(::sched_getcpu());
  if (pmu && pmu->one_of_several) identity.core_pmu = pmu->type;
  if (identity.arm) {
    identity.arm_events = pmu ? pmu->arm_events : 0;
    identity.arm_extended_events = pmu ? pmu->arm_extended_events : 0;
  }
  return identity;
}

namespace {

struct RaisedLimits {
  std::mutex mutex;
  std::size_t count = 0;
  rlimit before{};
};
RaisedLimits raised_limits;

}  // namespace

RaisedDescriptorLimit::RaisedDescriptorLimit() noexcept {
  const std::scoped_lock lock(raised_limits.mutex);
  if (raised_limits.count++ > 0) return;
  rlimit& before = raised_limits.before;
  if (::getrlimit(RLIMIT_NOFILE, &before) != 0) {
    before = {};
    return;
  }
  const rlimit most{before.rlim_max, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &most);
}

RaisedDescriptorLimit::~RaisedDescriptorLimit() {
  const std::scoped_lock lock(raised_limits.mutex);
  if (--raised_limits.count > 0 || raised_limits.before.rlim_max == 0) return;
  ::setrlimit(RLIMIT_NOFILE, &raised_limits.before);
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

namespace {

bool counts_on(const CpuIdentity& cpu, const Encoding& encoding) noexcept {
  if (!encoding.fits(cpu)) return false;
  if (!cpu.arm || encoding.type != PERF_TYPE_RAW) return true;
  if (encoding.config < 64) return (cpu.arm_events >> encoding.config & 1) != 0;
  const std::uint64_t number = encoding.config - first_extended_arm_event;
  return number >= 64 || (cpu.arm_extended_events >> number & 1) != 0;
}

}  // namespace

bool encode(Event event, const CpuIdentity& cpu, perf_event_attr& attributes) noexcept {
  const auto encoding_of_event =
      std::find_if(std::begin(encodings), std::end(encodings), [&](const Encoding& encoding) {
        return encoding.event == event && counts_on(cpu, encoding);
      });
  if (encoding_of_event == std::end(encodings)) return false;
  attributes.type = encoding_of_event->type;
  attributes.config = encoding_of_event->config;
  attributes.config1 = encoding_of_event->config1;
  if (cpu.core_pmu == 0) return true;
  // The kernel takes the PMU of its own events from the upper half of the code.
  constexpr unsigned pmu_shift = 32;
  if (encoding_of_event->type == PERF_TYPE_RAW) attributes.type = cpu.core_pmu;
  if (encoding_of_event->type == PERF_TYPE_HARDWARE ||
      encoding_of_event->type == PERF_TYPE_HW_CACHE) {
    attributes.config |= std::uint64_t{cpu.core_pmu} << pmu_shift;
  }
  return true;
}

bool encode(Event event, const CpuIdentity& cpu, const NameEncoder& names,
            perf_event_attr& attributes) {
  if (encode(event, cpu, attributes)) return true;
  if (!names) return false;
  return std::any_of(named_encodings.begin(), named_encodings.end(),
                     [&](const NamedEncoding& encoding) {
                       if (encoding.event != event) return false;
                       perf_event_attr named = attributes;
                       if (!names(encoding.name, named)) return false;
                       // The library may know the event of another kind of core alone.
                       if (cpu.core_pmu != 0 && named.type != cpu.core_pmu) return false;
                       attributes = named;
                       return true;
                     });
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
    // Without the right to count the kernel's mode, an event of that mode would always be 0.
    const bool kernel_only = description_of(answer.event).kernel_only;
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
