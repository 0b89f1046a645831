#include "runtime/tally.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace pmoss::runtime {
namespace {

// Of all at once: a loop that the compiler makes vector instructions of.
void add_all(std::pmr::vector<double>& sum, const std::pmr::vector<double>& values) noexcept {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
}

}  // namespace

void CoreSample::add(const CoreSample& other) noexcept {
  queries += other.queries;
  for (std::size_t event = 0; event < counts.size(); ++event) counts[event] += other.counts[event];
}

Tally::Tally(std::size_t slice_count, std::size_t events, std::size_t groups,
             std::pmr::memory_resource* memory)
    : slices(slice_count, memory),
      counters(slice_count * events, memory),
      counted(slice_count * groups, memory) {}

void Tally::add(const Tally& next) noexcept {
  if (next.empty()) return;
  if (empty()) begin = next.begin;
  end = next.end;
  for (std::size_t slice = 0; slice < slices.size(); ++slice) {
    slices[slice].queries += next.slices[slice].queries;
    slices[slice].service_ticks += next.slices[slice].service_ticks;
  }
  add_all(counters, next.counters);
  add_all(counted, next.counted);
  latency.merge(next.latency);
  sample.add(next.sample);
  ticks += next.ticks;
  idle_ticks += next.idle_ticks;
  queries += next.queries;
  windows += next.windows;
  cpu = next.cpu;
}

void Tally::clear() noexcept {
  std::fill(slices.begin(), slices.end(), Slice{});
  std::fill(counters.begin(), counters.end(), 0.0);
  std::fill(counted.begin(), counted.end(), 0.0);
  latency = {};
  sample = {};
  begin = {};
  end = {};
  ticks = idle_ticks = queries = windows = 0;
}

const Tally* TallyExchange::wait(const Control& control) const {
  constexpr std::chrono::microseconds pause(50);
  for (;;) {
    // In this order: what a worker hands over last comes before it leaves.
    const bool left = left_.load(std::memory_order_acquire);
    if (state_.load(std::memory_order_acquire) == State::answered) return &own_[current_ ^ 1U];
    if (left) return &own_[current_];
    if (control.phase() == Phase::abort) return nullptr;
    std::this_thread::sleep_for(pause);
  }
}

void TallyExchange::took(const Tally& tally) noexcept {
  taken_.add(tally);
  (&tally == &own_[0] ? own_[0] : own_[1]).clear();
  state_.store(State::idle, std::memory_order_release);
}

Tally TallyExchange::total() const {
  Tally result = taken_;
  result.add(own_[current_ ^ 1U]);
  result.add(own_[current_]);
  return result;
}

}  // namespace pmoss::runtime
