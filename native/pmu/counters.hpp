// Free-running counters of one thread, read by group.
//
// The counters are opened once and never reset, enabled or disabled again; a window is the
// difference of two snapshots. That makes a window one read() per group, where the usual pattern of
// reset, enable, read and disable per event costs a hundred times more.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "pmu/events.hpp"
#include "pmu/file_descriptor.hpp"

namespace pmoss::pmu {

/// Values of the open events at one moment, with the group's clocks: for how long the group was
/// enabled and for how long it really sat on the CPU's counters. All grow for ever.
struct Snapshot {
  struct Group {
    std::uint64_t enabled_ns = 0;
    std::uint64_t running_ns = 0;
    int error_number = 0;  ///< why the last read of this group failed; 0 if it did not
    bool active = true;    ///< it was this group's turn, if hardware groups take turns
  };
  std::array<std::uint64_t, event_count> values{};
  std::array<Group, event_count> groups{};  // at most one group per event
};

class ThreadCounters {
 public:
  struct Options {
    /// Hardware events per group. A CPU has 4 to 8 counters, and a watchdog may hold one; a group
    /// that does not fit never runs. What does not fit in one group goes to the next.
    std::size_t hardware_events_per_group = 4;
    /// Groups take turns when rotate() says so, each on its own. The kernel would change them every
    /// few milliseconds, in the middle of windows that last microseconds; then a window's scaled
    /// counts say nothing. If false, that is what happens, and `running_ns` tells how long each
    /// ran.
    bool rotate = true;
  };

  ThreadCounters() = default;

  /// Opens on the calling thread what `probed` calls available. An event that fails now is left
  /// out, with its reason in availability(); this never throws for want of counters.
  ThreadCounters(const std::vector<Availability>& probed, const Options& options,
                 const Opener& opener = system_opener(), const CpuIdentity& cpu = this_cpu());

  /// The events that really count on this thread, as positions in a Snapshot.
  const std::vector<Event>& events() const noexcept { return events_; }
  /// Position in Snapshot::groups for each of events().
  const std::vector<std::size_t>& group_of() const noexcept { return group_of_; }
  std::size_t group_count() const noexcept { return groups_.size(); }
  const std::vector<Availability>& availability() const noexcept { return availability_; }

  /// Reads the groups whose turn it is, or all: one system call each, no allocation. False if a
  /// read failed: its group says why, and keeps the values of the last snapshot written there.
  bool read(Snapshot& snapshot, bool all = false) const noexcept;

  /// How many turns there are until each group has had its own: 1 if none is needed.
  std::size_t turns() const noexcept { return rotating_.empty() ? 1 : rotating_.size(); }
  /// The next group's turn: two system calls if there is another one.
  void rotate() noexcept;

 private:
  struct Group {
    FileDescriptor leader;
    std::vector<FileDescriptor> siblings;
    std::vector<Event> events;
    bool active = true;
  };
  std::vector<Group> groups_;
  std::vector<std::size_t> rotating_;  ///< groups that take turns, if there are several
  std::size_t turn_ = 0;               ///< in rotating_
  std::vector<Event> events_;
  std::vector<std::size_t> group_of_;
  std::vector<Availability> availability_;
};

/// Part of the time between two snapshots that a group really counted, in [0, 1]; 1 if no time
/// passed, 0 if it was not the group's turn.
double running_ratio(const Snapshot::Group& begin, const Snapshot::Group& end) noexcept;

}  // namespace pmoss::pmu
