#include "runtime/worker.hpp"

#include <algorithm>
#include <array>

#include "numa/affinity.hpp"
#include "runtime/backoff.hpp"
#include "runtime/clock.hpp"
#include "runtime/router.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::runtime {

Worker::Worker(const Settings& settings, BTree& index, pmu::ThreadCounters counters)
    : settings_(settings),
      index_(index),
      counters_(std::move(counters)),
      scan_keys_(settings.max_scan_length),
      scan_values_(settings.max_scan_length),
      window_slices_(settings.window),
      empty_window_(counters_.events().size()),
      share_(counters_.events().size()),
      weight_(counters_.group_count()) {
  rings_.reserve(settings.routers);
  for (std::size_t i = 0; i < settings.routers; ++i) {
    rings_.push_back(std::make_unique<Ring>(settings.queue_items));
  }
  totals_.slices.resize(settings.slices);
  totals_.counters.resize(settings.slices * counters_.events().size());
  totals_.counted.resize(settings.slices * counters_.group_count());
  calibrate();
}

// A window holds the end of one read and the beginning of the next. What that alone counts is taken
// off each window; the colder caches after a system call are not, and show in very short windows.
void Worker::calibrate() {
  if (settings_.window == 0 || counters_.events().empty()) return;
  constexpr std::size_t rounds = 33;
  std::vector<std::array<double, rounds>> costs(counters_.events().size());
  for (std::size_t round = 0; round < rounds; ++round) {
    counters_.read(window_begin_);
    counters_.read(window_end_);
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const std::size_t event = pmu::index_of(counters_.events()[i]);
      costs[i][round] =
          static_cast<double>(window_end_.values[event] - window_begin_.values[event]);
    }
  }
  for (std::size_t i = 0; i < costs.size(); ++i) {
    auto middle = costs[i].begin() + rounds / 2;
    std::nth_element(costs[i].begin(), middle, costs[i].end());
    empty_window_[i] = *middle;
  }
}

bool Worker::route(const Control& control, std::atomic<std::size_t>& routers_running) {
  bool sent = false;
  for (std::size_t i = 0; i < aboard_.size();) {
    switch (aboard_[i]->step(control)) {
      case Router::Step::sent:
        sent = true;
        ++i;
        break;
      case Router::Step::waiting:
        ++i;
        break;
      case Router::Step::finished:
        aboard_.erase(aboard_.begin() + static_cast<std::ptrdiff_t>(i));
        routers_running.fetch_sub(1, std::memory_order_release);
        break;
    }
  }
  return sent;
}

void Worker::run(const Control& control, std::atomic<std::size_t>& routers_running,
                 std::vector<Router*> aboard) {
  aboard_ = std::move(aboard);
  // Of one router, before the next router's queue has its turn. Fewer where routing waits for it.
  const std::size_t batch = aboard_.empty() ? 64 : 16;
  Backoff backoff(settings_.shares_core);
  totals_.cpu = numa::current_cpu();
  std::uint64_t last = Clock::ticks();
  bool idle = true;
  const bool windows = settings_.window > 0 && counters_.group_count() > 0;

  for (;;) {
    bool executed = false;
    bool sent = false;
    // Read before the queues are: when it is 0 here, what the queues show now is all there will be.
    const bool last_round =
        phase_ == Phase::drain && routers_running.load(std::memory_order_acquire) == 0;
    for (const auto& ring : rings_) {
      const std::size_t waiting = ring->readable(batch);
      if (waiting == 0) continue;
      executed = true;
      if (idle) {
        idle = false;
        backoff.reset();
        const std::uint64_t now = Clock::ticks();
        if (phase_ == Phase::measuring) totals_.idle_ticks += now - last;
        last = now;
      }
      for (std::size_t i = 0; i < waiting; ++i) {
        if (windows && !window_open_ && queries_until_window_ == 0 && phase_ == Phase::measuring) {
          open_window();
          last = Clock::ticks();
        }
        const Item item = ring->front();
        execute(item);
        ring->release();
        const std::uint64_t now = Clock::ticks();
        if (const Phase phase = control.phase(); phase != phase_) [[unlikely]] {
          // The query in between belongs to neither phase.
          enter(phase);
          if (phase == Phase::abort) return;
          last = Clock::ticks();
          continue;
        }
        if (phase_ == Phase::measuring) {
          account(item, now - last, now);
          last = now;
          if (window_open_ && window_size_ == settings_.window) {
            close_window();
            last = Clock::ticks();
          }
        }
      }
    }
    if (!aboard_.empty()) {
      // Routing belongs to no slice.
      if (window_open_) close_window();
      window_open_ = false;
      sent = route(control, routers_running);
      if (!idle) last = Clock::ticks();
    }
    if (executed) continue;
    if (last_round) return;
    if (!idle) {
      idle = true;
      // Waiting belongs to no slice either.
      if (window_open_) close_window();
      last = Clock::ticks();
    }
    if (const Phase phase = control.phase(); phase != phase_) {
      if (phase_ == Phase::measuring) totals_.idle_ticks += Clock::ticks() - last;
      enter(phase);
      if (phase == Phase::abort) return;
      last = Clock::ticks();
    }
    if (!sent) backoff.wait();
  }
}

void Worker::execute(const Item& item) {
  ++totals_.executed;
  switch (item.kind()) {
    case Operation::Kind::lookup: {
      std::uint64_t value = 0;
      totals_.not_found += index_.lookup(item.key(), value) ? 0 : 1;
      totals_.checksum ^= value;
      break;
    }
    case Operation::Kind::insert:
      totals_.inserted += index_.insert(item.key(), item.key()) ? 1 : 0;
      break;
    case Operation::Kind::update:
      totals_.not_found += index_.update(item.key(), item.key() + totals_.executed) ? 0 : 1;
      break;
    case Operation::Kind::scan: {
      const std::size_t found =
          index_.scan(item.key(), item.scan_length(), scan_keys_.data(), scan_values_.data());
      for (std::size_t i = 0; i < found; ++i) totals_.checksum ^= scan_values_[i];
      break;
    }
  }
}

void Worker::account(const Item& item, std::uint64_t service_ticks, std::uint64_t now) noexcept {
  const std::uint32_t slice = slice_of_key(item.key(), settings_.slices);
  ++totals_.queries;
  ++totals_.slices[slice].queries;
  totals_.slices[slice].service_ticks += service_ticks;
  // Clocks of two cores may differ by a few ticks.
  const std::uint64_t relative = now - settings_.origin;
  totals_.latency.add(relative > item.stamp() ? relative - item.stamp() : 0);
  if (window_open_) window_slices_[window_size_++] = slice;
  if (queries_until_window_ > 0) --queries_until_window_;
}

void Worker::enter(Phase phase) noexcept {
  if (phase == Phase::measuring) {
    counters_.read(totals_.begin);
    totals_.begin_ticks = Clock::ticks();
  } else if (phase_ == Phase::measuring) {
    totals_.end_ticks = Clock::ticks();
    counters_.read(totals_.end);
    totals_.cpu = numa::current_cpu();
    window_open_ = false;  // unfinished, and its last query is not counted
  }
  phase_ = phase;
}

void Worker::open_window() noexcept {
  window_open_ = counters_.read(window_begin_);
  window_size_ = 0;
  queries_until_window_ = settings_.window;
}

void Worker::close_window() noexcept {
  window_open_ = false;
  if (!counters_.read(window_end_) || window_size_ == 0) return;
  book_window(window_end_);
  if (queries_until_window_ == 0) {
    // The next window begins where this one ended, so that a busy worker reads once per window.
    window_begin_ = window_end_;
    window_open_ = true;
    window_size_ = 0;
    queries_until_window_ = settings_.window;
  }
}

void Worker::book_window(const pmu::Snapshot& end) noexcept {
  const std::size_t events = share_.size();
  const std::size_t groups = weight_.size();
  ++totals_.windows;
  for (std::size_t group = 0; group < groups; ++group) {
    weight_[group] = pmu::running_ratio(window_begin_.groups[group], end.groups[group]);
  }
  for (std::size_t i = 0; i < events; ++i) {
    const std::size_t event = pmu::index_of(counters_.events()[i]);
    const double ran = weight_[counters_.group_of()[i]];
    const auto counted = static_cast<double>(end.values[event] - window_begin_.values[event]);
    share_[i] = std::max(0.0, counted - empty_window_[i] * ran) / static_cast<double>(window_size_);
  }
  for (std::size_t i = 0; i < window_size_; ++i) {
    const std::size_t slice = window_slices_[i];
    double* counters = &totals_.counters[slice * events];
    for (std::size_t event = 0; event < events; ++event) counters[event] += share_[event];
    double* counted = &totals_.counted[slice * groups];
    for (std::size_t group = 0; group < groups; ++group) counted[group] += weight_[group];
  }
}

}  // namespace pmoss::runtime
