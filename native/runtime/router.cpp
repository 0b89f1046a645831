#include "runtime/router.hpp"

#include <algorithm>

#include "numa/affinity.hpp"
#include "runtime/clock.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::runtime {

Router::Router(const Settings& settings, const WorkloadSpec& spec, std::uint64_t seed,
               std::uint64_t first_insert_record, std::vector<std::uint32_t> worker_of_slice)
    : settings_(settings),
      generator_(spec, mix64(seed + settings.number), first_insert_record + settings.number,
                 settings.routers),
      random_(mix64(seed) + settings.number),
      worker_of_slice_(std::move(worker_of_slice)),
      key_spacing_(~std::uint64_t{0} / spec.records),
      active_(worker_of_slice_),
      backoff_(settings.shares_core) {
  std::sort(active_.begin(), active_.end());
  active_.erase(std::unique(active_.begin(), active_.end()), active_.end());
}

void Router::connect(std::vector<Ring*> rings) {
  rings_ = std::move(rings);
  staging_.resize(rings_.size());
  room_.resize(rings_.size());
}

void Router::run(const Control& control) {
  totals_.cpu = numa::current_cpu();
  switch (settings_.load) {
    case LoadKind::closed:
      run_closed(control);
      break;
    case LoadKind::open:
      run_open(control);
      break;
    case LoadKind::saturated:
      run_saturated(control);
      break;
  }
}

std::uint64_t Router::now() const noexcept { return Clock::ticks() - settings_.origin; }

Operation Router::draw() noexcept {
  const Operation operation = generator_.next();
  if (operation.kind == Operation::Kind::insert) ++totals_.insert_draws;
  return operation;
}

std::uint32_t Router::worker_for(const Operation& operation) noexcept {
  const auto slices = static_cast<std::uint32_t>(worker_of_slice_.size());
  std::uint32_t slice = slice_of_key(operation.key, slices);
  if (operation.kind == Operation::Kind::scan) {
    // A scan that crosses slices may go to the worker of any of them. Keys lie evenly over their
    // range, which tells where the scan will end.
    const std::uint64_t left = ~operation.key;
    const std::uint64_t length =
        operation.scan_length > left / key_spacing_ ? left : operation.scan_length * key_spacing_;
    const std::uint32_t crossed = slice_of_key(operation.key + length, slices) - slice;
    if (crossed > 0) slice += static_cast<std::uint32_t>(random_.below(crossed + 1));
  }
  return worker_of_slice_[slice];
}

void Router::stage(std::uint32_t worker, const Operation& operation, std::uint64_t stamp) noexcept {
  Staging& staging = staging_[worker];
  staging.items[staging.end++] = Item(operation, stamp);
}

bool Router::flush(const Control& control) noexcept {
  for (const std::uint32_t worker : active_) {
    Staging& staging = staging_[worker];
    bool waited = false;
    while (staging.begin < staging.end) {
      const std::size_t sent =
          rings_[worker]->push(&staging.items[staging.begin], staging.end - staging.begin);
      staging.begin += sent;
      totals_.issued += sent;
      if (staging.begin == staging.end) break;
      if (!waited && control.phase() == Phase::measuring) ++totals_.backpressure;
      waited = true;
      // Not on drain: what was drawn is sent, so that no drawn insert is lost.
      if (control.phase() == Phase::abort) return false;
      backoff_.wait();
    }
    if (waited) backoff_.reset();
    staging.begin = 0;
    staging.end = 0;
  }
  return true;
}

std::uint64_t Router::outstanding() noexcept {
  std::uint64_t sum = 0;
  for (const std::uint32_t worker : active_) sum += rings_[worker]->in_flight();
  return sum;
}

void Router::run_closed(const Control& control) {
  while (control.phase() < Phase::drain) {
    const std::uint64_t in_flight = outstanding();
    const std::uint64_t draws = std::min<std::uint64_t>(settings_.tokens - in_flight, batch);
    if (draws == 0) {
      backoff_.wait();
      continue;
    }
    backoff_.reset();
    totals_.max_outstanding = std::max(totals_.max_outstanding, in_flight + draws);
    for (std::uint64_t i = 0; i < draws; ++i) {
      const Operation operation = draw();
      stage(worker_for(operation), operation, now());
    }
    if (!flush(control)) return;
  }
}

void Router::run_open(const Control& control) {
  double planned = static_cast<double>(now()) + settings_.first_arrival_ticks;
  while (control.phase() < Phase::drain) {
    const std::uint64_t time = now();
    std::size_t draws = 0;
    // The stamp is the planned arrival, so that the latency includes what a late router adds.
    while (draws < batch && planned <= static_cast<double>(time)) {
      const Operation operation = draw();
      stage(worker_for(operation), operation, static_cast<std::uint64_t>(planned));
      if (control.phase() == Phase::measuring) {
        totals_.max_lag_ticks =
            std::max(totals_.max_lag_ticks, time - static_cast<std::uint64_t>(planned));
      }
      planned += settings_.ticks_per_arrival;
      ++draws;
    }
    if (draws == 0) {
      backoff_.wait();
      continue;
    }
    backoff_.reset();
    if (!flush(control)) return;
  }
}

// Draws queries and drops those whose worker has enough already, so that a worker with little to do
// gets its backlog too. A worker's queries then have the distribution of its own slices.
void Router::run_saturated(const Control& control) {
  while (control.phase() < Phase::drain) {
    bool needed = false;
    for (const std::uint32_t worker : active_) {
      const std::size_t in_flight = rings_[worker]->in_flight();
      const std::size_t capacity = rings_[worker]->capacity();
      room_[worker] = std::min(capacity - in_flight, batch);
      needed |= in_flight < capacity / 2;
    }
    if (!needed) {
      backoff_.wait();
      continue;
    }
    backoff_.reset();
    const std::uint64_t stamp = now();
    const std::size_t draws = batch * active_.size();
    for (std::size_t i = 0; i < draws; ++i) {
      const Operation operation = draw();
      const std::uint32_t worker = worker_for(operation);
      if (room_[worker] == 0) {
        ++totals_.skipped;
        continue;
      }
      --room_[worker];
      stage(worker, operation, stamp);
    }
    if (!flush(control)) return;
    if (backoff_.should_yield(static_cast<unsigned>(draws), 2048)) backoff_.yield();
  }
}

}  // namespace pmoss::runtime
