#include "runtime/worker.hpp"

#include <algorithm>
#include <array>
#include <system_error>

#include "numa/affinity.hpp"
#include "runtime/backoff.hpp"
#include "runtime/clock.hpp"
#include "runtime/router.hpp"

namespace pmoss::runtime {

Worker::Worker(const Settings& settings, ServedIndex& index, pmu::ThreadCounters counters,
               std::pmr::memory_resource& memory)
    : settings_(settings),
      slice_of_key_(index.slice_of_key()),
      executor_(index.executor(memory)),
      counters_(std::move(counters)),
      rings_(&memory),
      tallies_(settings.slices, counters_.events().size(), counters_.group_count(), &memory),
      tally_(&tallies_.current()),
      windows_(settings.window > 0 && counters_.group_count() > 0),
      window_(settings.slices, &memory),
      empty_window_(counters_.events().size(), &memory),
      counts_(counters_.events().size(), &memory),
      of_waits_(counters_.events().size(), &memory),
      weights_(counters_.group_count(), &memory) {
  for (std::size_t i = 0; i < of_waits_.size(); ++i) {
    const pmu::Event event = counters_.events()[i];
    of_waits_[i] = event == pmu::Event::context_switches || event == pmu::Event::cpu_migrations;
    if (event == pmu::Event::task_clock) task_clock_ = i;
  }
  for (std::size_t i = 0; i < settings.routers; ++i) {
    rings_.emplace_back(settings.queue_items, &memory);
  }
  calibrate();
}

// A window holds the end of one read and the beginning of the next. What that alone counts is taken
// off each window, and a read that takes longer than here is allowed for by its time. The colder
// caches after a system call are not, and show in very short windows.
void Worker::calibrate() {
  if (!windows_) return;
  constexpr std::size_t rounds = 33;
  std::vector<std::array<double, rounds>> costs(counters_.events().size());
  std::array<std::uint64_t, rounds> durations;
  for (std::size_t rotation = 0; rotation < counters_.turns(); ++rotation, counters_.rotate()) {
    for (std::size_t round = 0; round < rounds; ++round) {
      if (!counters_.read(window_begin_)) return;
      const std::uint64_t begin = Clock::ticks();
      if (!counters_.read(window_end_)) return;
      durations[round] = Clock::ticks() - begin;
      for (std::size_t i = 0; i < costs.size(); ++i) {
        const std::size_t event = pmu::index_of(counters_.events()[i]);
        costs[i][round] =
            static_cast<double>(window_end_.values[event] - window_begin_.values[event]);
      }
    }
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (!window_end_.groups[counters_.group_of()[i]].active) continue;
      auto middle = costs[i].begin() + rounds / 2;
      std::nth_element(costs[i].begin(), middle, costs[i].end());
      empty_window_[i] = *middle;
    }
  }
  auto middle = durations.begin() + rounds / 2;
  std::nth_element(durations.begin(), middle, durations.end());
  reading_ticks_ = *middle;
  window_cost_ = static_cast<double>(reading_ticks_);
  processor_ticks_per_ns_ = 1.0 / Clock::ns_per_tick();
}

bool Worker::route(const Control& control, std::atomic<std::size_t>& routers_running) {
  bool sent = false;
  for (std::size_t i = 0; i < hosted_.size();) {
    switch (hosted_[i]->step(control)) {
      case Router::Step::sent:
        sent = true;
        ++i;
        break;
      case Router::Step::waiting:
        ++i;
        break;
      case Router::Step::finished:
        hosted_.erase(hosted_.begin() + static_cast<std::ptrdiff_t>(i));
        routers_running.fetch_sub(1, std::memory_order_release);
        break;
    }
  }
  return sent;
}

void Worker::run(const Control& control, std::atomic<std::size_t>& routers_running,
                 std::vector<Router*> hosted) {
  hosted_ = std::move(hosted);
  control_ = &control;
  // Queries of one router before the next router's queue is looked at. Fewer where routing waits.
  const std::size_t burst = std::max<std::size_t>(hosted_.empty() ? 64 : 16, settings_.batch);
  // Routers on this CPU are hosted: no other thread needs the core.
  RoleBackoff backoff = backoff_of_role(false);
  tally_->cpu = numa::current_cpu();
  last_ = Clock::ticks();
  bool idle = true;
  // However it ends, its sweeper must not wait for it.
  const struct Leave {
    TallyExchange& tallies;
    ~Leave() { tallies.leave(); }
  } leave{tallies_};

  for (;;) {
    if (tallies_.asked()) [[unlikely]]
      hand_over(idle);
    bool executed = false;
    bool sent = false;
    // Read before the queues are: when it is 0 here, what the queues show now is all there will be.
    const bool last_round =
        phase_ == Phase::drain && routers_running.load(std::memory_order_acquire) == 0;
    for (Ring& ring : rings_) {
      const std::size_t waiting = ring.readable(burst);
      if (waiting == 0) continue;
      executed = true;
      const EpochGuard guard;
      if (idle) {
        idle = false;
        backoff.reset();
        const std::uint64_t now = Clock::ticks();
        if (phase_ == Phase::measuring) tally_->idle_ticks += now - last_;
        last_ = now;
      }
      for (std::size_t done = 0; done < waiting;) {
        if (windows_ && !window_open_ && window_due(next_window_ticks_) &&
            phase_ == Phase::measuring) {
          open_window();
        }
        const std::size_t count = std::min<std::size_t>(settings_.batch, waiting - done);
        if (count == 1) {
          executor_->execute(guard, ring.front());
        } else {
          executor_->execute_batch(guard, ring, count);
        }
        done += count;
        const std::uint64_t now = Clock::ticks();
        const Phase phase = control.phase();
        if (phase != phase_) [[unlikely]] {
          // The queries in between belong to neither phase.
          if (phase == Phase::drain) account_late(ring, count, now);
          ring.release(count);
          enter(phase);
          if (phase == Phase::abort) return;
          continue;
        }
        if (phase_ == Phase::measuring) {
          // The times of a batch's queries are unknown: equal parts.
          const std::uint64_t each = (now - last_) / count;
          for (std::size_t i = 0; i + 1 < count; ++i) account(ring.front(i), now, each);
          account(ring.front(count - 1), now, now - last_ - (count - 1) * each);
          if (windows_) tell_window(ring, count, each);
        } else if (phase_ == Phase::drain) {
          account_late(ring, count, now);
        }
        ring.release(count);
        last_ = now;
        if (window_open_ && window_due(window_end_ticks_)) close_window();
      }
    }
    if (!hosted_.empty()) {
      // Routing belongs to no slice.
      if (!idle) suspend_service();
      sent = route(control, routers_running);
      if (!idle) last_ = Clock::ticks();
    }
    if (executed) continue;
    if (last_round) return;
    if (!idle) {
      idle = true;
      // Waiting belongs to no slice either.
      suspend_service();
    }
    if (const Phase phase = control.phase(); phase != phase_) {
      if (phase_ == Phase::measuring) tally_->idle_ticks += Clock::ticks() - last_;
      enter(phase);
      if (phase == Phase::abort) return;
    }
    if (sent) {
      // The answer comes soon. A core given away now comes back after a whole time slice.
      backoff.reset();
    } else {
      backoff.pause();
    }
  }
}

void Worker::account(const Item& item, std::uint64_t now, std::uint64_t service_ticks) noexcept {
  const std::uint32_t slice = slice_of_key_(item.key());
  last_slice_ = &tally_->slices[slice];
  ++tally_->queries;
  ++last_slice_->queries;
  last_slice_->service_ticks += service_ticks;
  tally_->latency.add(item.age(now - settings_.origin));
}

void Worker::account_late(const Ring& ring, std::size_t count, std::uint64_t now) noexcept {
  late_end_ = now - settings_.origin;
  for (std::size_t i = 0; i < count; ++i) late_.add(ring.front(i).age(late_end_));
}

void Worker::tell_window(const Ring& ring, std::size_t count, std::uint64_t ticks) noexcept {
  if (window_.lists_slices()) {
    for (std::size_t i = 0; i < count; ++i) window_.touch(slice_of_key_(ring.front(i).key()));
  }
  window_.look_at(slice_of_key_(ring.front(count - 1).key()), ticks);
}

void Worker::charge_last_query() noexcept {
  const std::uint64_t now = Clock::ticks();
  // A worker that lost its CPU may come back when the phase is over: that time belongs to neither.
  if (last_slice_ != nullptr && control_->phase() == phase_) {
    last_slice_->service_ticks += now - last_;
  }
  last_slice_ = nullptr;
  last_ = now;
}

void Worker::suspend_service() noexcept {
  if (window_open_) {
    close_window();
    window_open_ = false;
  } else {
    charge_last_query();
  }
}

void Worker::enter(Phase phase) noexcept {
  if (phase == Phase::measuring) {
    counters_.read(tally_->begin, true);  // what fails shows in availability()
    part_begin_ = Clock::ticks();
  } else if (phase_ == Phase::measuring) {
    end_part();
    window_open_ = false;  // unfinished, and its last query is not counted
  }
  phase_ = phase;
  last_slice_ = nullptr;
  last_ = Clock::ticks();
}

void Worker::end_part() noexcept {
  const std::uint64_t now = Clock::ticks();
  tally_->ticks += now - part_begin_;
  part_begin_ = now;
  counters_.read(tally_->end, true);
  tally_->cpu = numa::current_cpu();
}

void Worker::hand_over(bool idle) noexcept {
  const bool counts = phase_ == Phase::measuring;
  if (counts) {
    if (idle) {
      tally_->idle_ticks += Clock::ticks() - last_;
    } else {
      suspend_service();
    }
    end_part();
  }
  const Tally& handed = *tally_;
  Tally& following = tallies_.next();
  if (counts) following.begin = handed.end;
  following.cpu = handed.cpu;
  window_due_queries_ -= std::min(window_due_queries_, handed.queries);
  window_.change_tally();
  tallies_.hand_over();
  tally_ = &following;
  last_slice_ = nullptr;
  // Reading the counters belongs to no slice.
  last_ = Clock::ticks();
}

std::vector<pmu::Availability> Worker::availability(const Tally& tally) const {
  std::vector<pmu::Availability> result = counters_.availability();
  for (std::size_t i = 0; i < counters_.events().size(); ++i) {
    const std::size_t group = counters_.group_of()[i];
    for (const pmu::Snapshot* snapshot : {&tally.begin, &tally.end}) {
      const int error_number = snapshot->groups[group].error_number;
      if (error_number == 0) continue;
      pmu::Availability& event = result[pmu::index_of(counters_.events()[i])];
      event.source = pmu::Availability::Source::none;
      event.error_number = error_number;
      event.reason =
          "reading the counter failed (" + std::generic_category().message(error_number) + ")";
    }
  }
  return result;
}

bool Worker::window_due(std::uint64_t ticks) const noexcept {
  return tally_->queries >= window_due_queries_ && last_ >= ticks;
}

/// The last reading of the counters is its beginning.
void Worker::begin_window() noexcept {
  window_open_ = true;
  window_queries_ = tally_->queries;
  window_due_queries_ = tally_->queries + settings_.window;
  window_end_ticks_ = last_ + static_cast<std::uint64_t>(costs_per_window * window_cost_);
  next_window_ticks_ = last_ + static_cast<std::uint64_t>(costs_between * window_cost_);
}

void Worker::open_window() noexcept {
  charge_last_query();
  window_.begin(tally_->slices);
  const bool complete = read_counters(window_begin_);
  begin_window();
  window_open_ = complete;
}

bool Worker::read_counters(pmu::Snapshot& snapshot) noexcept {
  const bool complete = counters_.read(snapshot);
  const std::uint64_t now = Clock::ticks();
  const std::uint64_t took = now - last_;
  last_ = now;
  // The moment of counting is somewhere in the middle of it.
  late_ticks_ = took > reading_ticks_ ? (took - reading_ticks_) / 2 : 0;
  window_.skip(late_ticks_);
  return complete;
}

void Worker::close_window() noexcept {
  charge_last_query();
  window_open_ = false;
  if (tally_->queries == window_queries_) return;
  const bool due = window_due(window_end_ticks_);
  const std::uint64_t before = last_;
  if (!read_counters(window_end_)) return;
  book_window();
  if (counters_.turns() > 1 && ++windows_since_rotation_ == windows_per_rotation) {
    // The next window begins with a reading of its own.
    windows_since_rotation_ = 0;
    counters_.rotate();
    last_ = Clock::ticks();
    return;
  }
  const std::uint64_t now = Clock::ticks();
  learn_cost(now - before);
  if (due) {
    // The next window begins where this one ended, so that a busy worker reads once per window.
    std::swap(window_begin_, window_end_);
    window_.skip(now - last_ + late_ticks_);
    last_ = now;
    begin_window();
  }
  last_ = now;
}

void Worker::learn_cost(std::uint64_t ticks) noexcept {
  // The core may have been lost meanwhile, which is no cost of the window.
  constexpr double limit = 4.0;
  constexpr double memory = 16.0;
  window_cost_ +=
      (std::min(static_cast<double>(ticks), limit * window_cost_) - window_cost_) / memory;
}

void Worker::book_window() noexcept {
  ++tally_->windows;
  for (std::size_t group = 0; group < weights_.size(); ++group) {
    weights_[group] = pmu::running_ratio(window_begin_.groups[group], window_end_.groups[group]);
  }
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const std::size_t event = pmu::index_of(counters_.events()[i]);
    const double ran = weights_[counters_.group_of()[i]];
    const auto counted =
        static_cast<double>(window_end_.values[event] - window_begin_.values[event]);
    // Values of a group that waits for its turn are those of earlier windows.
    counts_[i] = ran > 0.0 ? std::max(0.0, counted - empty_window_[i] * ran) : 0.0;
  }
  const double processor_ticks =
      task_clock_ < counts_.size() ? counts_[task_clock_] * processor_ticks_per_ns_ : -1.0;
  window_.book(tally_->slices, {counts_, of_waits_, weights_, processor_ticks}, tally_->counters,
               tally_->counted);
  tally_->sample.queries += tally_->queries - window_queries_;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    tally_->sample.counts[pmu::index_of(counters_.events()[i])] += counts_[i];
  }
}

}  // namespace pmoss::runtime
