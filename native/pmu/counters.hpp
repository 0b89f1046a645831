// Free-running counters of one thread, read by group.
//
// The counters are opened once and never reset, enabled or disabled again; a window is the
// difference of two snapshots. That makes a window one read() per group, where the usual pattern of
// reset, enable, read and disable per event costs a hundred times more. A build that is given the
// perfevent wrapper's header has that pattern (counters_perfevent.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pmu/events.hpp"
#include "pmu/file_descriptor.hpp"
#include "pmu/user_page.hpp"

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
    /// counts say nothing. If false, that is what happens, and `running_ns` is how long each ran.
    bool rotate = true;
    /// Hardware groups whose members the kernel lets us read are read without a system call.
    bool user_reads = true;
    NameEncoder names = libpfm_encoder();
#ifndef PMOSS_PERFEVENT
    UserPage::Mapper map = system_mapper();
    UserPage::Processor processor = this_processor();
#endif
  };

  ThreadCounters() = default;

  /// Opens on the calling thread what `probed` calls available. An event that fails now is left
  /// out, with its reason in availability(); this never throws for want of counters.
  ThreadCounters(const std::vector<Availability>& probed, const Options& options,
                 const Opener& opener = system_opener(), const CpuIdentity& cpu = this_cpu());

  /// Lets every hardware group count for a moment, on the thread that is counted. A group that gets
  /// no counters is split in halves. An event that gets none by itself is left out, with its reason
  /// in availability(). Where all groups run this costs a few system calls per group.
  void check_running();

  /// The events that really count on this thread, as positions in a Snapshot.
  const std::vector<Event>& events() const noexcept { return events_; }
  /// Position in Snapshot::groups for each of events().
  const std::vector<std::size_t>& group_of() const noexcept { return group_of_; }
  std::size_t group_count() const noexcept;
  /// Groups that are read in user space while they are on the counters.
  std::size_t user_read_groups() const noexcept;
  const std::vector<Availability>& availability() const noexcept { return availability_; }

  /// Reads the groups whose turn it is, or all: at most one system call each, no allocation. False
  /// if a read failed: its group says why, and keeps the values of the last snapshot written there.
  bool read(Snapshot& snapshot, bool all = false) const noexcept;

  /// How many turns there are until each group has had its own: 1 if none is needed.
  std::size_t turns() const noexcept;
  /// The next group's turn: two system calls if there is another one.
  void rotate() noexcept;

 private:
#ifdef PMOSS_PERFEVENT
  // Through the wrapper: it opens what it knows, each event by itself, and starts and stops them.
  struct Wrapped;
  std::shared_ptr<Wrapped> wrapped_;
#else
  struct Group {
    FileDescriptor leader;
    std::vector<FileDescriptor> siblings;
    std::vector<Event> events;
    std::vector<UserPage> pages;  ///< of the members; empty if they cannot be read so
    bool active = true;
  };
  static bool is_hardware(const Group& group) noexcept;
  /// As the group's leader, or the next member. A file descriptor, or minus the errno.
  int open_member(Group& group, Event event, bool disabled);
  /// Adds the events to `groups`, in as few groups as `limit` and the kernel allow.
  void open_groups(const std::vector<Event>& events, std::size_t limit, bool disabled,
                   std::vector<Group>& groups);
  void leave_out(Event event, int error_number, std::string reason);
  bool runs(const Group& group) const;
  /// Maps pages, decides which counters take turns, and lists events().
  void arrange();
  void map_pages(Group& group) const;
  static bool read_pages(const Group& group, Snapshot& snapshot, std::size_t number) noexcept;

  Options options_;
  Opener opener_;
  CpuIdentity cpu_;
  std::vector<Group> groups_;
  std::vector<std::size_t> rotating_;  ///< groups that take turns, if there are several
  std::size_t turn_ = 0;               ///< in rotating_
#endif
  std::vector<Event> events_;
  std::vector<std::size_t> group_of_;
  std::vector<Availability> availability_;
};

/// Part of the time between two snapshots that a group really counted, in [0, 1]; 1 if no time
/// passed, 0 if it was not the group's turn.
inline double running_ratio(const Snapshot::Group& begin, const Snapshot::Group& end) noexcept {
  if (!begin.active || !end.active) return 0.0;
  const std::uint64_t enabled = end.enabled_ns - begin.enabled_ns;
  const std::uint64_t running = end.running_ns - begin.running_ns;
  if (enabled == 0) return 1.0;
  return std::min(1.0, static_cast<double>(running) / static_cast<double>(enabled));
}

}  // namespace pmoss::pmu
