#include "pmu/counters.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

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

}  // namespace

ThreadCounters::ThreadCounters(const std::vector<Availability>& probed, const Options& options,
                               const Opener& opener, const CpuIdentity& cpu)
    : availability_(probed) {
  const std::size_t hardware_limit = std::max<std::size_t>(1, options.hardware_events_per_group);

  std::vector<std::size_t> hardware_groups;
  const auto open_as_leader = [&](perf_event_attr& attributes, Event event) {
    const bool waits =
        options.rotate && index_of(event) < first_software_event && !hardware_groups.empty();
    attributes.disabled = waits ? 1 : 0;
    const int descriptor = opener(attributes, -1);
    if (descriptor < 0) return descriptor;
    Group group;
    group.leader = FileDescriptor(descriptor);
    group.events.push_back(event);
    group.active = !waits;
    if (index_of(event) < first_software_event) hardware_groups.push_back(groups_.size());
    groups_.push_back(std::move(group));
    return descriptor;
  };

  // Software events first and in a group of their own: it needs no counters and always runs.
  for (const auto source : {Availability::Source::software, Availability::Source::hardware}) {
    std::optional<std::size_t> current;
    for (Availability& available : availability_) {
      if (available.source != source) continue;
      perf_event_attr attributes = group_attributes(available);
      if (!detail::encode(available.event, cpu, options.names, attributes)) {
        available.source = Availability::Source::none;
        available.reason = detail::no_encoding;
        continue;
      }
      const bool full = source == Availability::Source::hardware && current &&
                        groups_[*current].events.size() >= hardware_limit;
      int descriptor = -EINVAL;
      if (current && !full) {
        Group& group = groups_[*current];
        descriptor = opener(attributes, group.leader.get());
        if (descriptor >= 0) {
          group.siblings.emplace_back(descriptor);
          group.events.push_back(available.event);
        }
      }
      // The kernel refuses a sibling for which the CPU has no free counter: start another group.
      if (descriptor < 0) {
        descriptor = open_as_leader(attributes, available.event);
        if (descriptor >= 0) current = groups_.size() - 1;
      }
      if (descriptor < 0) {
        available.source = Availability::Source::none;
        available.error_number = -descriptor;
        available.reason = detail::explain(-descriptor);
      }
    }
  }
  if (options.user_reads) map_pages(options);
  if (options.rotate && hardware_groups.size() > 1) rotating_ = std::move(hardware_groups);
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    for (const Event event : groups_[group].events) {
      events_.push_back(event);
      group_of_.push_back(group);
    }
  }
}

/// A group is read in one way: with a member that only the kernel can read, by the kernel.
void ThreadCounters::map_pages(const Options& options) {
  for (Group& group : groups_) {
    if (index_of(group.events.front()) >= first_software_event) continue;
    std::vector<int> members{group.leader.get()};
    for (const FileDescriptor& sibling : group.siblings) members.push_back(sibling.get());
    std::vector<UserPage> pages;
    for (const int member : members) {
      UserPage page(options.map(member), options.processor);
      if (!page.usable()) break;
      pages.push_back(std::move(page));
    }
    if (pages.size() == members.size()) group.pages = std::move(pages);
  }
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
  // What the kernel writes for a group: its size, the two clocks, one value per member.
  struct Record {
    std::uint64_t size;
    std::uint64_t enabled_ns;
    std::uint64_t running_ns;
    std::uint64_t values[event_count];
  };
  bool complete = true;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    snapshot.groups[i].active = group.active;
    if (!group.active && !all) continue;
    if (!group.pages.empty() && read_pages(group, snapshot, i)) continue;
    Record record;
    const std::size_t bytes = (3 + group.events.size()) * sizeof(std::uint64_t);
    const ssize_t got = ::read(group.leader.get(), &record, bytes);
    if (got != static_cast<ssize_t>(bytes) || record.size != group.events.size()) {
      snapshot.groups[i].error_number = got < 0 ? errno : EIO;
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
