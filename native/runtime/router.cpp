#include "runtime/router.hpp"

#include <algorithm>
#include <iterator>

#include "numa/affinity.hpp"
#include "runtime/backoff.hpp"
#include "runtime/clock.hpp"

namespace pmoss::runtime {

Router::Router(const Settings& settings, const ServedIndex& index, std::uint64_t seed,
               std::uint64_t first_insert_record, const RouteBoard& board,
               std::pmr::memory_resource& memory)
    : settings_(settings),
      stream_(index.stream(mix64(seed + settings.number), first_insert_record + settings.number,
                           settings.routers)),
      random_(mix64(seed) + settings.number),
      board_(board),
      lanes_(&memory),
      filled_(&memory),
      room_(&memory),
      tokens_(settings.tokens),
      arrivals_(settings.rate_mqs / static_cast<double>(settings.routers), seed + settings.number) {
}

void Router::take_routes() {
  const std::uint64_t version = board_.version();
  if (version == version_ && !serving_.empty()) [[likely]]
    return;
  if (!serving_.empty()) ++totals_.schedules;
  // A version read before the copy can only be too old; then the copy is taken once more.
  version_ = version;
  routes_ = board_.copy();
  serving_ = routes_.workers;
  std::sort(serving_.begin(), serving_.end());
  serving_.erase(std::unique(serving_.begin(), serving_.end()), serving_.end());
  std::vector<std::uint32_t> reached;
  std::set_union(reached_.begin(), reached_.end(), serving_.begin(), serving_.end(),
                 std::back_inserter(reached));
  reached_ = std::move(reached);
}

void Router::connect(const std::vector<Ring*>& rings) {
  std::pmr::memory_resource* const memory = lanes_.get_allocator().resource();
  lanes_.reserve(rings.size());
  for (Ring* const ring : rings) lanes_.push_back({ring, false, 0, std::pmr::vector<Item>(memory)});
  filled_.reserve(rings.size());
  room_.resize(rings.size());
}

void Router::run(const Control& control) {
  RoleBackoff backoff = backoff_of_role(settings_.shares_core);
  for (;;) {
    switch (step(control)) {
      case Step::sent:
        backoff.reset();
        break;
      case Step::waiting:
        backoff.pause();
        break;
      case Step::finished:
        return;
    }
  }
}

Router::Step Router::step(const Control& control) {
  if (totals_.cpu < 0) totals_.cpu = numa::current_cpu();
  const Phase phase = control.phase();
  const bool measuring = phase == Phase::measuring;
  if (phase == Phase::abort) return Step::finished;
  if (blocked_ && !flush(measuring)) {
    if (settings_.load == LoadKind::open) note_lag(now());
    return Step::waiting;
  }
  if (phase == Phase::drain) {
    // What was drawn is sent, so that no drawn insert is lost.
    flush(measuring);
    return filled_.empty() ? Step::finished : Step::waiting;
  }
  take_routes();
  switch (settings_.load) {
    case LoadKind::closed:
      draw_closed();
      break;
    case LoadKind::open:
      draw_open(measuring);
      break;
    case LoadKind::saturated:
      draw_saturated();
      break;
  }
  const std::uint64_t issued = totals_.issued;
  flush(measuring);
  return totals_.issued == issued ? Step::waiting : Step::sent;
}

std::uint64_t Router::now() const noexcept { return Clock::ticks() - settings_.origin; }

Operation Router::draw() noexcept {
  const Operation operation = stream_->next();
  if (operation.kind == Operation::Kind::insert) ++totals_.insert_draws;
  return operation;
}

std::uint32_t Router::worker_for(const Operation& operation) noexcept {
  // A query on several slices may go to the worker of any of them.
  const Candidates touched = stream_->candidates(operation);
  const std::uint32_t count = touched.count();
  const std::uint32_t slice =
      touched.at(count > 1 ? static_cast<std::uint32_t>(random_.below(count)) : std::uint32_t{0});
  const std::uint32_t first = routes_.first[slice];
  const std::uint32_t candidates = routes_.first[slice + 1] - first;
  return routes_.workers[first + (candidates > 1 ? random_.below(candidates) : 0)];
}

void Router::stage(std::uint32_t worker, const Operation& operation, std::uint64_t stamp) {
  Lane& lane = lanes_[worker];
  const Item item(operation, stamp);
  // In the order in which they were drawn.
  if (lane.waiting() > 0 || !lane.ring->put(item)) lane.items.push_back(item);
  if (lane.listed) return;
  lane.listed = true;
  filled_.push_back(worker);
}

void Router::make_up(Lane& lane) noexcept {
  while (lane.waiting() > 0 && lane.ring->put(lane.items[lane.begin])) ++lane.begin;
  if (2 * lane.begin < lane.items.size()) return;
  const auto first = lane.items.begin();
  lane.items.erase(first, first + static_cast<std::ptrdiff_t>(lane.begin));
  lane.begin = 0;
}

bool Router::flush(bool measuring) noexcept {
  bool held_up = false;
  std::size_t left = 0;
  for (const std::uint32_t worker : filled_) {
    Lane& lane = lanes_[worker];
    if (lane.waiting() > 0) [[unlikely]]
      make_up(lane);
    totals_.issued += lane.ring->publish();
    lane.listed = lane.waiting() > 0;
    if (!lane.listed) [[likely]]
      continue;
    filled_[left++] = worker;
    held_up |= settings_.load != LoadKind::closed && lane.waiting() > settings_.waiting_room;
  }
  filled_.resize(left);
  if (held_up && !blocked_ && measuring) {
    backpressure_.store(++totals_.backpressure, std::memory_order_relaxed);
  }
  blocked_ = held_up;
  return !held_up;
}

void Router::collect_tokens() noexcept {
  const std::size_t queues = std::min(looks, reached_.size());
  for (std::size_t i = 0; i < queues && tokens_ < batch; ++i) {
    if (next_look_ >= reached_.size()) next_look_ = 0;
    tokens_ += lanes_[reached_[next_look_++]].ring->newly_released();
  }
}

void Router::draw_closed() {
  if (tokens_ < batch) collect_tokens();
  const std::uint64_t draws = std::min<std::uint64_t>(tokens_, batch);
  tokens_ -= draws;
  totals_.max_outstanding = std::max(totals_.max_outstanding, settings_.tokens - tokens_);
  for (std::uint64_t i = 0; i < draws; ++i) {
    const Operation operation = draw();
    stage(worker_for(operation), operation, now());
  }
}

void Router::plan_next_arrival() noexcept {
  planned_ += arrivals_.next_gap_ns() / Clock::ns_per_tick();
}

void Router::note_lag(std::uint64_t time) noexcept {
  const double behind = planning_ ? static_cast<double>(time) - planned_ : 0.0;
  lag_ticks_.store(static_cast<std::uint64_t>(std::max(behind, 0.0)), std::memory_order_relaxed);
}

void Router::draw_open(bool measuring) {
  const std::uint64_t time = now();
  if (!planning_) {
    planning_ = true;
    plan_next_arrival();
  }
  note_lag(time);
  std::size_t draws = 0;
  // The stamp is the planned arrival, so that the latency includes what a late router adds.
  while (draws < batch && planned_ <= static_cast<double>(time)) {
    const Operation operation = draw();
    stage(worker_for(operation), operation, static_cast<std::uint64_t>(planned_));
    if (measuring) {
      totals_.max_lag_ticks =
          std::max(totals_.max_lag_ticks, time - static_cast<std::uint64_t>(planned_));
    }
    plan_next_arrival();
    ++draws;
  }
}

// Draws queries and drops those whose worker has enough already, so that a worker with little to do
// gets its backlog too. A worker's queries then have the distribution of its own slices.
void Router::draw_saturated() {
  bool needed = false;
  for (const std::uint32_t worker : serving_) {
    const std::size_t in_flight = lanes_[worker].ring->in_flight();
    const std::size_t capacity = lanes_[worker].ring->capacity();
    room_[worker] = std::min(capacity - in_flight, batch);
    needed |= in_flight < capacity / 2;
  }
  if (!needed) return;
  const std::uint64_t stamp = now();
  const std::size_t draws = batch * serving_.size();
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
}

}  // namespace pmoss::runtime
