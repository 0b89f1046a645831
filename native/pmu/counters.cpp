#include "pmu/counters.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <iterator>
#include <utility>

namespace pmoss::pmu {
namespace {

perf_event_attr group_attributes(const Availability& available) noexcept {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.exclude_hv = 1;
  attributes.exclude_kernel = available.user_only ? 1 : 0;
  attributes.read_format =
      PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return attributes;
}

/// What the kernel writes for a group: its size, the two clocks, one value per member.
struct Record {
  std::uint64_t size;
  std::uint64_t enabled_ns;
  std::uint64_t running_ns;
  std::uint64_t values[event_count];
};

/// False if the read failed, with errno if the kernel says why.
bool read_record(int leader, std::size_t members, Record& record) noexcept {
  const std::size_t bytes = (3 + members) * sizeof(std::uint64_t);
  return ::read(leader, &record, bytes) == static_cast<ssize_t>(bytes) && record.size == members;
}

std::uint64_t thread_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// In config1: the event's counter may be read in user mode.
constexpr std::uint64_t arm_user_access = 2;

}  // namespace

ThreadCounters::ThreadCounters(const std::vector<Availability>& probed, const Options& options,
                               const Opener& opener, const CpuIdentity& cpu)
    : options_(options), opener_(opener), cpu_(cpu), availability_(probed) {
  const auto available = [&](Availability::Source source) {
    std::vector<Event> events;
    for (const Availability& availability : availability_) {
      if (availability.source == source) events.push_back(availability.event);
    }
    return events;
  };
  // Software events first and in a group of their own: it needs no counters and always runs.
  open_groups(available(Availability::Source::software), event_count, false, groups_);
  open_groups(available(Availability::Source::hardware),
              std::max<std::size_t>(1, options.hardware_events_per_group), options.rotate, groups_);
  arrange();
}

bool ThreadCounters::is_hardware(const Group& group) noexcept {
  return index_of(group.events.front()) < first_software_event;
}

void ThreadCounters::leave_out(Event event, int error_number, std::string reason) {
  Availability& available = availability_[index_of(event)];
  available.source = Availability::Source::none;
  available.error_number = error_number;
  available.reason = std::move(reason);
}

int ThreadCounters::open_member(Group& group, Event event, bool disabled) {
  perf_event_attr attributes = group_attributes(availability_[index_of(event)]);
  if (!detail::encode(event, cpu_, options_.names, attributes)) return -ENODATA;
  const bool leads = group.events.empty();
  attributes.disabled = leads && disabled ? 1 : 0;
  const bool user_read = options_.user_reads && cpu_.arm && index_of(event) < first_software_event;
  if (user_read) attributes.config1 |= arm_user_access;
  int descriptor = opener_(attributes, group.leader.get());
  if (descriptor < 0 && user_read) {
    attributes.config1 &= ~arm_user_access;
    descriptor = opener_(attributes, group.leader.get());
  }
  if (descriptor < 0) return descriptor;
  if (leads) {
    group.leader = FileDescriptor(descriptor);
    group.active = !disabled;
  } else {
    group.siblings.emplace_back(descriptor);
  }
  group.events.push_back(event);
  return descriptor;
}

void ThreadCounters::open_groups(const std::vector<Event>& events, std::size_t limit, bool disabled,
                                 std::vector<Group>& groups) {
  Group current;
  const auto close = [&] {
    if (!current.events.empty()) groups.push_back(std::move(current));
    current = Group{};
  };
  for (const Event event : events) {
    if (current.events.size() >= limit) close();
    int opened = open_member(current, event, disabled);
    // The kernel refuses a sibling for which the CPU has no free counter: start another group.
    if (opened < 0 && !current.events.empty()) {
      Group next;
      opened = open_member(next, event, disabled);
      if (opened >= 0) {
        close();
        current = std::move(next);
      }
    }
    if (opened == -ENODATA) {
      leave_out(event, 0, detail::no_encoding);
    } else if (opened < 0) {
      leave_out(event, -opened, detail::explain(-opened));
    }
  }
  close();
}

void ThreadCounters::check_running() {
  std::vector<Group> checked;
  std::vector<Group> waiting;
  for (Group& group : groups_) {
    if (is_hardware(group)) {
      // Each is tried alone.
      ::ioctl(group.leader.get(), PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
      waiting.push_back(std::move(group));
    } else {
      checked.push_back(std::move(group));
    }
  }
  std::reverse(waiting.begin(), waiting.end());
  while (!waiting.empty()) {
    Group group = std::move(waiting.back());
    waiting.pop_back();
    if (runs(group)) {
      checked.push_back(std::move(group));
      continue;
    }
    const std::vector<Event> events = std::move(group.events);
    group = Group{};  // gives its counters back
    if (events.size() == 1) {
      leave_out(events.front(), 0, detail::never_ran);
      continue;
    }
    std::vector<Group> halves;
    open_groups(events, (events.size() + 1) / 2, true, halves);
    std::move(halves.rbegin(), halves.rend(), std::back_inserter(waiting));
  }
  groups_ = std::move(checked);
  arrange();
}

bool ThreadCounters::runs(const Group& group) const {
  // Several of the intervals at which the kernel lets groups take turns.
  constexpr std::uint64_t long_enough_ns = 50'000'000;
  // A try that fails may look like a moment of running.
  constexpr std::uint64_t moment_ns = 20'000;
  constexpr std::uint64_t least_part = 20;
  Record begin;
  Record now;
  const int leader = group.leader.get();
  // Member after member: the first ones run until one of them finds no counter.
  ::ioctl(leader, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
  if (!read_record(leader, group.events.size(), begin)) return true;  // reading tells later
  const std::uint64_t started = thread_ns();
  bool ran = false;
  bool waits = true;
  while (!ran && waits) {
    volatile std::uint64_t sink = 0;
    for (std::uint64_t i = 0; i < 2'000; ++i) sink = sink + i;
    if (!read_record(leader, group.events.size(), now)) break;
    const std::uint64_t enabled_ns = now.enabled_ns - begin.enabled_ns;
    const std::uint64_t running_ns = now.running_ns - begin.running_ns;
    ran = running_ns >= moment_ns && running_ns * least_part >= enabled_ns;
    waits = enabled_ns < long_enough_ns && thread_ns() - started < 2 * long_enough_ns;
  }
  ::ioctl(leader, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
  return ran;
}

void ThreadCounters::arrange() {
  rotating_.clear();
  turn_ = 0;
  events_.clear();
  group_of_.clear();
  for (std::size_t number = 0; number < groups_.size(); ++number) {
    Group& group = groups_[number];
    for (const Event event : group.events) {
      events_.push_back(event);
      group_of_.push_back(number);
    }
    if (!is_hardware(group)) continue;
    map_pages(group);
    // The first has the first turn.
    group.active = !options_.rotate || rotating_.empty();
    if (group.active) ::ioctl(group.leader.get(), PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
    if (options_.rotate) rotating_.push_back(number);
  }
  if (rotating_.size() < 2) rotating_.clear();
}

/// A group is read in one way: with a member that only the kernel can read, by the kernel.
void ThreadCounters::map_pages(Group& group) const {
  if (!options_.user_reads || !group.pages.empty()) return;
  std::vector<int> members{group.leader.get()};
  for (const FileDescriptor& sibling : group.siblings) members.push_back(sibling.get());
  std::vector<UserPage> pages;
  for (const int member : members) {
    UserPage page(options_.map(member), options_.processor);
    if (!page.usable()) return;
    pages.push_back(std::move(page));
  }
  group.pages = std::move(pages);
}

std::size_t ThreadCounters::user_read_groups() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      groups_.begin(), groups_.end(), [](const Group& group) { return !group.pages.empty(); }));
}

bool ThreadCounters::read_pages(const Group& group, Snapshot& snapshot,
                                std::size_t number) noexcept {
  UserPage::Value value{};
  for (std::size_t member = 0; member < group.pages.size(); ++member) {
    if (!group.pages[member].read(value)) return false;
    snapshot.values[index_of(group.events[member])] = value.count;
  }
  snapshot.groups[number] = {value.enabled_ns, value.running_ns, 0, group.active};
  return true;
}

std::size_t ThreadCounters::group_count() const noexcept { return groups_.size(); }

std::size_t ThreadCounters::turns() const noexcept {
  return rotating_.empty() ? 1 : rotating_.size();
}

void ThreadCounters::rotate() noexcept {
  if (rotating_.empty()) return;
  Group& last = groups_[rotating_[turn_]];
  turn_ = (turn_ + 1) % rotating_.size();
  Group& next = groups_[rotating_[turn_]];
  // What fails shows as a group that never ran.
  ::ioctl(last.leader.get(), PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
  ::ioctl(next.leader.get(), PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
  last.active = false;
  next.active = true;
}

bool ThreadCounters::read(Snapshot& snapshot, bool all) const noexcept {
  bool complete = true;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    snapshot.groups[i].active = group.active;
    if (!group.active && !all) continue;
    if (!group.pages.empty() && read_pages(group, snapshot, i)) continue;
    Record record;
    errno = EIO;
    if (!read_record(group.leader.get(), group.events.size(), record)) {
      snapshot.groups[i].error_number = errno;
      complete = false;
      continue;
    }
    snapshot.groups[i] = {record.enabled_ns, record.running_ns, 0, group.active};
    for (std::size_t member = 0; member < group.events.size(); ++member) {
      snapshot.values[index_of(group.events[member])] = record.values[member];
    }
  }
  return complete;
}

}  // namespace pmoss::pmu
