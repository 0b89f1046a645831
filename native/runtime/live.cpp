#include "runtime/live.hpp"

#include <algorithm>
#include <utility>

#include "runtime/answers.hpp"

namespace pmoss::runtime {

void RoundQueue::append(Round round) {
  {
    const std::scoped_lock lock(mutex_);
    if (rounds_.size() == room_) {
      rounds_.pop_front();
      ++dropped_;
    }
    rounds_.push_back(std::move(round));
  }
  appended_.notify_one();
}

void RoundQueue::wait(std::chrono::duration<double> time) {
  std::unique_lock lock(mutex_);
  appended_.wait_for(lock, time, [&] { return !rounds_.empty(); });
}

std::optional<Round> RoundQueue::take(std::chrono::duration<double> time) {
  std::unique_lock lock(mutex_);
  appended_.wait_for(lock, time, [&] { return !rounds_.empty(); });
  if (rounds_.empty()) return std::nullopt;
  std::optional<Round> round = std::move(rounds_.front());
  rounds_.pop_front();
  round->dropped = std::exchange(dropped_, 0);
  return round;
}

LiveRun::LiveRun(const MeasureOptions& options, ServedIndex& index, Homes& homes, Written& written,
                 Exclusive exclusive)
    : options_(options),
      index_(index),
      written_(written),
      size_before_(index.is_foreign() ? index.size() : 0),
      homes_(homes),
      plan_(make_plan(options_, index.slices())),
      collector_(plan_, crew_),
      rounds_(options.kept_rounds),
      exclusive_(std::move(exclusive)) {
  std::function<void(WholeRound)> tell;
  if (options_.until_stopped) {
    tell = [this](const WholeRound& whole) {
      if (std::optional<Round> round = collector_.collect(whole)) rounds_.append(std::move(*round));
    };
  }
  crew_.emplace(plan_, index, homes, written, std::move(tell));
}

LiveRun::~LiveRun() { end(); }

void LiveRun::end() noexcept {
  // The threads first: they use the crew.
  if (crew_) crew_->abort();
  crew_.reset();
  exclusive_.reset();
}

template <typename Work>
auto LiveRun::guarded(Work work) {
  try {
    return work();
  } catch (...) {
    end();
    throw;
  }
}

void LiveRun::require_running() const {
  if (!running()) throw RunnerError("the run has ended: start another one");
}

void LiveRun::start(const Poll& poll) {
  guarded([&] {
    crew_->start(poll);
    crew_->warm_up(poll);
    crew_->begin();
  });
}

void LiveRun::wait(std::chrono::duration<double> time, const Poll& poll) {
  require_running();
  guarded([&] { crew_->wait(time, poll); });
}

void LiveRun::change(const Schedule& schedule, MigrationPace pace) {
  require_running();
  plan_.validate(schedule);
  require_possible(index_, homes_, schedule);
  guarded([&] { crew_->check(); });
  Enforcement* const enforcement = crew_->enforcement();
  if (enforcement == nullptr) throw RunnerError("a measurement knows its schedules beforehand");
  enforcement->add({0.0, schedule, pace});
}

std::optional<Round> LiveRun::next_round(std::chrono::duration<double> time, const Poll& poll) {
  using Time = std::chrono::steady_clock;
  constexpr std::chrono::duration<double> poll_interval(0.05);
  constexpr std::chrono::duration<double> longest(1e6);  // the clock ends at some time
  const auto until =
      Time::now() + std::chrono::duration_cast<Time::duration>(std::min(time, longest));
  for (;;) {
    // Before rounds are read: they may come faster than a reader takes them.
    if (running()) guarded([&] { crew_->check(); });
    const std::chrono::duration<double> left = until - Time::now();
    const auto now = running() ? std::clamp(left, decltype(left)::zero(), poll_interval)
                               : decltype(left)::zero();
    if (std::optional<Round> round = rounds_.take(now)) return round;
    if (!running()) return std::nullopt;
    guarded([&] {
      if (poll && poll()) throw Cancelled("cancelled");
    });
    if (Time::now() >= until) return std::nullopt;
  }
}

Measurement LiveRun::stop(const Poll& poll) {
  require_running();
  return guarded([&] {
    crew_->end();
    crew_->drain(poll);
    Measurement result = collect(plan_, *crew_);
    crew_.reset();
    Written written = written_;
    written.not_found = result.not_found;
    written.size = size_before_ + result.inserted;
    check_answers(index_, written, poll);
    end();
    return result;
  });
}

}  // namespace pmoss::runtime
