#include "runtime/sweeping.hpp"

#include <algorithm>
#include <cmath>
#include <thread>
#include <type_traits>

#include "runtime/clock.hpp"

namespace pmoss::runtime {
Rounds::Rounds(double seconds, double interval_seconds) noexcept {
  if (!(interval_seconds > 0.0)) return;
  if (std::isinf(seconds)) {
    interval_ = interval_seconds;
    count_ = endless;
    return;
  }
  constexpr double most_rounds = 10'000.0;
  interval_ = std::max(std::min(interval_seconds, seconds), seconds / most_rounds);
  // A hair less than the quotient of numbers that are not exact.
  count_ = static_cast<std::size_t>(std::floor(seconds / interval_ + 1e-6));
}

void Rounds::begin() noexcept { begin_.store(Time::now(), std::memory_order_relaxed); }

Rounds::Time::time_point Rounds::end_of(std::size_t round) {
  const auto of_seconds = [](double seconds) {
    return std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  };
  const Time::time_point begin = begin_.load(std::memory_order_relaxed);
  if (count_ != endless) return begin + of_seconds(interval_ * static_cast<double>(round + 1));
  const std::scoped_lock lock(mutex_);
  if (newest_end_ == Time::time_point{}) {
    newest_end_ = begin + of_seconds(interval_);
  } else if (round > newest_) {
    newest_ = round;
    newest_end_ =
        std::max(newest_end_ + of_seconds(interval_), Time::now() + of_seconds(interval_ / 2));
  }
  return round < newest_ ? Time::now() : newest_end_;
}

/// The phase is over.
bool Rounds::is_past_last(std::size_t round) {
  if (count_ != endless) return false;
  const std::scoped_lock lock(mutex_);
  // Some sweeper may have ended the newest one before the phase was over.
  if (!last_) last_ = newest_ + 1;
  return round > *last_;
}

std::optional<double> Rounds::wait(std::size_t round, const Control& control) {
  // An aborted measurement should not wait for long.
  constexpr Time::duration longest = std::chrono::milliseconds(50);
  if (round >= count_) return std::nullopt;
  control.wait_while(Phase::warmup);
  Phase phase = control.phase();
  if (phase == Phase::measuring) {
    const Time::time_point end = end_of(round);
    while ((phase = control.phase()) == Phase::measuring) {
      const Time::duration left = end - Time::now();
      if (left <= Time::duration::zero()) break;
      std::this_thread::sleep_for(std::min(left, longest));
    }
  }
  if (phase == Phase::abort) return std::nullopt;
  if (phase != Phase::measuring && is_past_last(round)) return std::nullopt;
  const Time::time_point begin = begin_.load(std::memory_order_relaxed);
  return std::chrono::duration<double>(Time::now() - begin).count();
}

void sweep_cores(const Control& control, Rounds& rounds, std::size_t node,
                 const std::vector<SweptWorker>& workers, bool whole,
                 SnapshotQueue<CoreSnapshot>& to) {
  for (std::size_t round = 0; rounds.wait(round, control); ++round) {
    CoreSnapshot snapshot{round, node, 0, 0.0, {}};
    std::uint64_t ticks = 0;
    for (const SweptWorker& worker : workers) worker.tallies->ask();
    for (const SweptWorker& worker : workers) {
      const Tally* const tally = worker.tallies->wait(control);
      if (tally == nullptr) return;
      snapshot.completed += tally->queries;
      ticks += tally->ticks;
      snapshot.sample.add(tally->sample);
      if (whole) snapshot.workers.emplace_back(worker.number, *tally);
      worker.tallies->took(*tally);
    }
    snapshot.seconds = static_cast<double>(ticks) * Clock::ns_per_tick() * 1e-9 /
                       static_cast<double>(workers.size());
    to.push(std::move(snapshot));
  }
}

void sweep_offcore(const Control& control, Rounds& rounds, const pmu::OffcoreCounters& counters,
                   SnapshotQueue<OffcoreSnapshot>& to) {
  control.wait_while(Phase::warmup);
  const auto begin = counters.read();
  std::size_t round = 0;
  while (const std::optional<double> seconds = rounds.wait(round, control)) {
    auto counts = counters.read();
    auto bytes = counters.bytes_between(begin, counts);
    to.push({round, *seconds, std::move(bytes), std::move(counts)});
    ++round;
  }
}

void Stitcher::stitch() {
  for (CoreSnapshot& core : cores_.take()) waiting_[core.round].cores.push_back(std::move(core));
  for (OffcoreSnapshot& snapshot : offcore_.take()) {
    waiting_[snapshot.round].offcore.push_back(std::move(snapshot));
  }
  while (!waiting_.empty()) {
    const auto first = waiting_.begin();
    const WholeRound& round = first->second;
    // Every sweeper takes its rounds in their order, so a later round is not whole either.
    if (round.cores.size() < stitched_.nodes.size() || round.offcore.empty()) return;
    if (tell_) {
      tell_(std::move(waiting_.extract(first).mapped()));
    } else {
      append(round);
      waiting_.erase(first);
    }
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
  result.node_seconds = rows_from(stitched_.node_seconds);
  result.sampled = rows_from(stitched_.sampled);
  result.counters = rows_from(stitched_.counters);
  result.offcore_gb_per_s = rows_from(stitched_.offcore_gb_per_s);
  return result;
}

void Stitcher::append(const WholeRound& round) {
  const std::scoped_lock lock(stitched_mutex_);
  const std::size_t nodes = stitched_.nodes.size();
  const std::size_t at = stitched_.seconds.size() * nodes;
  stitched_.queries.resize(at + nodes);
  stitched_.node_seconds.resize(at + nodes);
  stitched_.sampled.resize(at + nodes);
  stitched_.counters.resize((at + nodes) * pmu::event_count);
  for (const CoreSnapshot& core : round.cores) {
    const std::size_t row = at + core.node;
    stitched_.queries[row] = core.completed;
    stitched_.node_seconds[row] = core.seconds;
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
