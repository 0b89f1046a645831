// The canonical counters: one name per quantity, whatever machine counts it. A machine that cannot
// count one of them says so and why; no counter is ever replaced by another quantity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "counters/events.hpp"
#include "pmu/core_pmu.hpp"
#include "pmu/event_names.hpp"

struct perf_event_attr;

namespace pmoss::pmu {

constexpr std::size_t index_of(Event event) noexcept { return static_cast<std::size_t>(event); }

constexpr const EventDescription& description_of(Event event) noexcept {
  return event_descriptions[index_of(event)];
}
constexpr std::string_view name_of(Event event) noexcept { return description_of(event).name; }

/// How this host counts an event.
struct Availability {
  enum class Source : std::uint8_t { none, hardware, software };
  Event event{};
  Source source = Source::none;
  /// Without the right to count the kernel's part, only time in user mode is counted.
  bool user_only = false;
  int error_number = 0;  ///< of opening or reading; 0 if it counts or has no encoding here
  std::string reason;    ///< empty if the event counts

  bool available() const noexcept { return source != Source::none; }
};

/// "hardware", "software" or "none".
std::string_view name_of(Availability::Source source) noexcept;

/// The CPU, as far as the choice of raw event codes needs it.
struct CpuIdentity {
  bool intel = false;
  unsigned family = 0;
  unsigned model = 0;
  bool amd = false;
  bool arm = false;
  /// The type of the core's PMU where there are several kinds of core, else 0.
  std::uint32_t core_pmu = 0;
  /// Arm: bit n says that the common event n is implemented. An event that is not opens, and
  /// counts nothing.
  std::uint64_t arm_events = ~std::uint64_t{0};
  /// Likewise of those from first_extended_arm_event on.
  std::uint64_t arm_extended_events = ~std::uint64_t{0};
};
/// The CPU that the calling thread is on.
CpuIdentity this_cpu();

/// Opens one event on a thread and any CPU, as a member of the group with the leader `group`. With
/// -1 the event leads a group of its own. Returns a file descriptor, or minus the errno. Tests put
/// their own function in place of the system call.
using Opener = std::function<int(perf_event_attr& attributes, int group)>;
/// Opens events on the thread of this id; 0 is the calling thread.
Opener system_opener(int thread = 0);

/// While there is one, the limit of open files is the most that this process may have: a worker has
/// one file per event, and 1,024 is the usual limit. The last one puts back what the first found.
class RaisedDescriptorLimit {
 public:
  RaisedDescriptorLimit() noexcept;
  ~RaisedDescriptorLimit();
  RaisedDescriptorLimit(const RaisedDescriptorLimit&) = delete;
  RaisedDescriptorLimit& operator=(const RaisedDescriptorLimit&) = delete;
};

/// Tries each event by itself, so that one that fails costs no other. Always event_count entries,
/// in the order of Event. An event that opens need not run: ThreadCounters::check_running().
std::vector<Availability> probe(const Opener& opener = system_opener(),
                                const CpuIdentity& cpu = this_cpu(),
                                const NameEncoder& names = libpfm_encoder());

namespace detail {
/// Fills in type and code. False if the table has no encoding of the event for this CPU. Where
/// there are several kinds of core, the event is that of this one's PMU.
bool encode(Event event, const CpuIdentity& cpu, perf_event_attr& attributes) noexcept;
/// The same; events that are not in the table are looked up by their names in the manuals.
bool encode(Event event, const CpuIdentity& cpu, const NameEncoder& names,
            perf_event_attr& attributes);
std::string explain(int error_number);
inline constexpr const char* never_ran =
    "unsupported: it opens, but it never runs: other events hold the counters, or this virtual "
    "machine has none";
inline constexpr const char* no_encoding =
    "unsupported: no encoding of this event is known for this CPU";
}  // namespace detail

}  // namespace pmoss::pmu
