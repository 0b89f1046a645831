#include "runtime/sweeping.hpp"

#include <algorithm>
#include <cmath>
#include <thread>
#include <type_traits>

namespace pmoss::runtime {
namespace {

// Of all events at once: a loop that the compiler makes vector instructions of.
void add(EventCounts& sum, const EventCounts& counts) noexcept {
  for (std::size_t event = 0; event < sum.size(); ++event) sum[event] += counts[event];
}

}  // namespace

void StatsQueue::add(std::uint64_t queries, const std::vector<pmu::Event>& events,
                     std::span<const double> counts) noexcept {
  pending_.queries += queries;
  for (std::size_t i = 0; i < events.size(); ++i) {
    pending_.counts[pmu::index_of(events[i])] += counts[i];
  }
  if (ring_.push(&pending_, 1) == 1) pending_ = {};
}

void StatsQueue::take(CoreSample& sum) noexcept {
  for (std::size_t waiting; (waiting = ring_.readable(ring_.capacity())) > 0;) {
    for (std::size_t i = 0; i < waiting; ++i) {
      const CoreSample& sample = ring_.front(i);
      sum.queries += sample.queries;
      runtime::add(sum.counts, sample.counts);
    }
    ring_.release(waiting);
  }
}

Rounds::Rounds(double seconds, double interval_seconds) noexcept {
  if (!(interval_seconds > 0.0)) return;
  constexpr double most = 10'000.0;
  interval_ = std::max(std::min(interval_seconds, seconds), seconds / most);
  // A hair less than the quotient of numbers that are not exact.
  count_ = static_cast<std::size_t>(std::floor(seconds / interval_ + 1e-6));
}

void Rounds::begin() noexcept { begin_.store(Time::now(), std::memory_order_relaxed); }

double Rounds::wait(std::size_t round, const Control& control) const {
  // An aborted measurement should not wait for long.
  constexpr Time::duration most = std::chrono::milliseconds(50);
  control.wait_while(Phase::warmup);
  const Time::time_point begin = begin_.load(std::memory_order_relaxed);
  const auto end = begin + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(
                               interval_ * static_cast<double>(round + 1)));
  while (control.phase() == Phase::measuring) {
    const Time::duration left = end - Time::now();
    if (left <= Time::duration::zero()) break;
    std::this_thread::sleep_for(std::min(left, most));
  }
  return std::chrono::duration<double>(Time::now() - begin).count();
}

void sweep_cores(const Control& control, const Rounds& rounds, std::size_t node,
                 const std::vector<StatsQueue*>& workers, SnapshotQueue<CoreSnapshot>& to) {
  std::uint64_t before = 0;
  for (std::size_t round = 0; round < rounds.count(); ++round) {
    rounds.wait(round, control);
    if (control.phase() == Phase::abort) return;
    CoreSnapshot snapshot{round, node, 0, {}};
    std::uint64_t completed = 0;
    for (StatsQueue* const worker : workers) {
      worker->take(snapshot.sample);
      completed += worker->completed();
    }
    snapshot.completed = completed - before;
    before = completed;
    to.push(snapshot);
  }
}

void sweep_offcore(const Control& control, const Rounds& rounds,
                   const pmu::OffcoreCounters& counters, SnapshotQueue<OffcoreSnapshot>& to) {
  control.wait_while(Phase::warmup);
  const auto begin = counters.read();
  for (std::size_t round = 0; round < rounds.count(); ++round) {
    const double seconds = rounds.wait(round, control);
    if (control.phase() == Phase::abort) return;
    to.push({round, seconds, counters.bytes_between(begin, counters.read())});
  }
}

void Stitcher::stitch() {
  for (CoreSnapshot& core : cores_.take()) waiting_[core.round].cores.push_back(std::move(core));
  for (OffcoreSnapshot& one : offcore_.take()) {
    waiting_[one.round].offcore.push_back(std::move(one));
  }
  while (!waiting_.empty()) {
    const auto first = waiting_.begin();
    const Partial& round = first->second;
    // Every sweeper takes its rounds in their order, so a later round is not whole either.
    if (round.cores.size() < stitched_.nodes.size() || round.offcore.empty()) return;
    append(round);
    waiting_.erase(first);
  }
}

StitchedRounds Stitcher::since(std::size_t first) const {
  const std::scoped_lock lock(stitched_mutex_);
  StitchedRounds result;
  result.nodes = stitched_.nodes;
  const std::size_t rounds = stitched_.seconds.size();
  const auto rows_from = [&](const auto& all) {
    const std::size_t columns = rounds > 0 ? all.size() / rounds : 0;
    const auto skipped = static_cast<std::ptrdiff_t>(std::min(first, rounds) * columns);
    return std::remove_cvref_t<decltype(all)>(all.begin() + skipped, all.end());
  };
  result.seconds = rows_from(stitched_.seconds);
  result.queries = rows_from(stitched_.queries);
  result.sampled = rows_from(stitched_.sampled);
  result.counters = rows_from(stitched_.counters);
  result.offcore_gb_per_s = rows_from(stitched_.offcore_gb_per_s);
  return result;
}

void Stitcher::append(const Partial& round) {
  const std::scoped_lock lock(stitched_mutex_);
  const std::size_t nodes = stitched_.nodes.size();
  const std::size_t at = stitched_.seconds.size() * nodes;
  stitched_.queries.resize(at + nodes);
  stitched_.sampled.resize(at + nodes);
  stitched_.counters.resize((at + nodes) * pmu::event_count);
  for (const CoreSnapshot& core : round.cores) {
    const std::size_t row = at + core.node;
    stitched_.queries[row] = core.completed;
    stitched_.sampled[row] = core.sample.queries;
    std::copy(core.sample.counts.begin(), core.sample.counts.end(),
              stitched_.counters.begin() + static_cast<std::ptrdiff_t>(row * pmu::event_count));
  }
  const OffcoreSnapshot& offcore = round.offcore.front();
  stitched_.seconds.push_back(offcore.seconds);
  last_bytes_.resize(offcore.bytes.size());
  const double passed = offcore.seconds - last_seconds_;
  for (std::size_t i = 0; i < offcore.bytes.size(); ++i) {
    // Scaled counts of a longer time may be less than those of its part.
    const double bytes = std::max(0.0, offcore.bytes[i] - last_bytes_[i]);
    stitched_.offcore_gb_per_s.push_back(passed > 0.0 ? bytes / passed / 1e9 : 0.0);
  }
  last_bytes_ = offcore.bytes;
  last_seconds_ = offcore.seconds;
}

}  // namespace pmoss::runtime
