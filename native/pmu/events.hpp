// The canonical counters: one name per quantity, whatever machine counts it. A machine that cannot
// count one of them says so and why; no counter is ever replaced by another quantity.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pmu/event_names.hpp"

struct perf_event_attr;

namespace pmoss::pmu {

/// Columns of every counter matrix, in this order: 15 hardware events, then 4 of the kernel.
enum class Event : std::uint8_t {
  cycles,
  instructions,
  l1d_misses,
  l1i_misses,
  llc_misses,
  branch_misses,
  memory_misses,  // loads served by another node's memory
  dtlb_misses,
  memory_accesses,  // loads that reached memory
  llc_write_misses,
  memory_write_misses,
  local_dram,      // retired loads served by the own node's memory
  remote_dram,     // retired loads served by another node's memory
  cycles_l3_miss,  // cycles with an outstanding demand load that missed the L3
  cycles_mem_any,  // cycles with any outstanding load
  task_clock,
  context_switches,
  page_faults,
  cpu_migrations,
};

inline constexpr std::size_t event_count = 19;
inline constexpr std::size_t first_software_event = static_cast<std::size_t>(Event::task_clock);

constexpr std::size_t index_of(Event event) noexcept { return static_cast<std::size_t>(event); }

std::string_view name_of(Event event) noexcept;
/// "count", "cycles" or "ns".
std::string_view unit_of(Event event) noexcept;

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
};
CpuIdentity this_cpu() noexcept;

/// Opens one event on a thread and any CPU as a member of the group whose leader is
/// `group` (-1 = it leads a group of its own). Returns a file descriptor, or minus the errno.
/// Tests put their own function in place of the system call.
using Opener = std::function<int(perf_event_attr& attributes, int group)>;
/// Opens events on the thread of this id; 0 is the calling thread.
Opener system_opener(int thread = 0);

/// Tries each event by itself, so that one that fails costs no other. Always event_count entries,
/// in the order of Event.
std::vector<Availability> probe(const Opener& opener = system_opener(),
                                const CpuIdentity& cpu = this_cpu(),
                                const NameEncoder& names = libpfm_encoder());

namespace detail {
/// Fills in type and code. False if this CPU has no sure encoding of the event.
bool encode(Event event, const CpuIdentity& cpu, perf_event_attr& attributes) noexcept;
/// The same; what our table does not know is asked for by the names that manuals give it.
bool encode(Event event, const CpuIdentity& cpu, const NameEncoder& names,
            perf_event_attr& attributes);
std::string explain(int error_number);
inline constexpr const char* no_encoding =
    "unsupported: no encoding of this event is known for this CPU";
}  // namespace detail

}  // namespace pmoss::pmu
