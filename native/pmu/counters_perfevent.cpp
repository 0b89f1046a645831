// The same counters through the perfevent wrapper, whose header is not ours and not in this
// repository: PMOSS_PERFEVENT_DIR says where it is.
#include <linux/perf_event.h>

#include <PerfEvent.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "pmu/counters.hpp"

namespace pmoss::pmu {

struct ThreadCounters::Wrapped {
  PerfEvent wrapper;
  std::vector<std::pair<std::size_t, Event>>
      counted;  ///< position in wrapper.events, and what it is
  std::array<double, event_count> totals{};
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  /// The event that the wrapper has opened for both modes.
  std::optional<std::size_t> find(const perf_event_attr& wanted) const {
    for (std::size_t i = 0; i < wrapper.events.size(); ++i) {
      const perf_event_attr& opened = wrapper.events[i].pe;
      if (opened.type == wanted.type && opened.config == wanted.config &&
          opened.config1 == wanted.config1 && opened.exclude_user == 0) {
        return i;
      }
    }
    return std::nullopt;
  }

  /// Registers an event and opens it; nothing, and the reason in `available`, if that fails.
  std::optional<std::size_t> add(Availability& available, const perf_event_attr& wanted,
                                 const Opener& opener) {
    wrapper.registerCounter(std::string(name_of(available.event)), wanted.type, wanted.config);
    auto& added = wrapper.events.back();
    added.pe.config1 = wanted.config1;
    added.pe.exclude_hv = 1;
    added.pe.exclude_kernel = available.user_only ? 1 : 0;
    added.fd = opener(added.pe, -1);
    if (added.fd >= 0) return wrapper.events.size() - 1;
    available.source = Availability::Source::none;
    available.error_number = -added.fd;
    available.reason = detail::explain(available.error_number);
    wrapper.events.pop_back();
    return std::nullopt;
  }
};

// The wrapper opens a short list of its own, and nothing at all if one of it fails. What it has
// opened is recognised by type and code, whatever it is called there. All else is registered with
// it here.
ThreadCounters::ThreadCounters(const std::vector<Availability>& probed, const Options& options,
                               const Opener& opener, const CpuIdentity& cpu)
    : wrapped_(std::make_shared<Wrapped>()), availability_(probed) {
  for (Availability& available : availability_) {
    perf_event_attr wanted{};
    if (!detail::encode(available.event, cpu, options.names, wanted)) continue;
    std::optional<std::size_t> position = wrapped_->find(wanted);
    if (!position && available.available()) position = wrapped_->add(available, wanted, opener);
    if (!position) continue;
    wrapped_->counted.emplace_back(*position, available.event);
    events_.push_back(available.event);
    group_of_.push_back(0);
  }
  wrapped_->wrapper.startCounters();
}

void ThreadCounters::check_running() {}  // the wrapper decides what it opens

std::size_t ThreadCounters::group_count() const noexcept { return events_.empty() ? 0 : 1; }
std::size_t ThreadCounters::user_read_groups() const noexcept { return 0; }
std::size_t ThreadCounters::turns() const noexcept { return 1; }
void ThreadCounters::rotate() noexcept {}

// The wrapper counts from start to stop, scaled for multiplexing; a snapshot is the sum so far.
bool ThreadCounters::read(Snapshot& snapshot, bool) const noexcept {
  if (!wrapped_) return true;
  Wrapped& own = *wrapped_;
  own.wrapper.stopCounters();
  bool complete = true;
  for (const auto& [position, event] : own.counted) {
    const double counted = own.wrapper.events[position].readCounter();
    // An event that had no turn: 0 / 0.
    if (counted >= 0.0) {
      own.totals[index_of(event)] += counted;
    } else {
      complete = false;
    }
    snapshot.values[index_of(event)] = static_cast<std::uint64_t>(own.totals[index_of(event)]);
  }
  const auto so_far = std::chrono::steady_clock::now() - own.begin;
  const auto ns = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(so_far).count());
  snapshot.groups[0] = {ns, ns, 0, true};
  own.wrapper.startCounters();
  return complete;
}

}  // namespace pmoss::pmu
