// A run that goes on until stop() is called. Its schedule changes while queries are served, and
// every sweeping round is a whole snapshot.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/collect.hpp"
#include "runtime/crew.hpp"
#include "runtime/errors.hpp"
#include "runtime/measure_options.hpp"
#include "runtime/measurement.hpp"
#include "runtime/plan.hpp"
#include "runtime/served_index.hpp"

namespace pmoss::runtime {

/// Only one load() or run at a time: two would drive the same index and the same records.
class Exclusive {
 public:
  explicit Exclusive(std::atomic<bool>& busy) : busy_(&busy) {
    if (!busy_->exchange(true)) return;
    throw RunnerError("the runner is already loading or measuring");
  }
  ~Exclusive() {
    if (busy_ != nullptr) busy_->store(false);
  }
  Exclusive(Exclusive&& other) noexcept : busy_(std::exchange(other.busy_, nullptr)) {}
  Exclusive& operator=(Exclusive&&) = delete;

 private:
  std::atomic<bool>* busy_;
};

/// Rounds on their way to a reader. Who appends never waits for the reader: when there is no room,
/// the oldest round is dropped.
///
/// Example with room for 2: rounds 5, 6 and 7 are appended, and none is read. The next one read is
/// 6, with dropped = 1; then comes 7, with dropped = 0.
class RoundQueue {
 public:
  explicit RoundQueue(std::size_t room) : room_(room) {}

  void append(Round round);
  /// Until there is one, or the time is over.
  void wait(std::chrono::duration<double> time);
  /// The oldest one, as soon as there is one within the time.
  std::optional<Round> take(std::chrono::duration<double> time);

 private:
  std::size_t room_;
  std::mutex mutex_;
  std::condition_variable appended_;
  std::deque<Round> rounds_;
  std::uint64_t dropped_ = 0;  ///< since the last one was read
};

/// Made by Runner::start(). start(), then change() and next_round() as often as wanted, then
/// stop(). The threads end with it, also after an exception. One call at a time, but for
/// await_round().
///
/// Example: a run of 16 slices on two cores gets a change that swaps the cores. Queries drawn from
/// then on go to the new cores; those in the queues are answered by the old ones. The data follow
/// part by part, and each round tells how many slices still wait for theirs.
class LiveRun {
 public:
  /// Throws like make_plan().
  LiveRun(const MeasureOptions& options, ServedIndex& index, Homes& homes, Written& written,
          Exclusive exclusive);
  ~LiveRun();
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

  /// Until queries flow and the warm-up is over.
  void start(const Poll& poll);
  /// Some time of the run. Throws what a thread threw; then all have ended.
  void wait(std::chrono::duration<double> time, const Poll& poll);

  /// Cores take it at once, data at this pace. Returns before that. For a schedule that is refused
  /// it throws like make_plan(), and the run goes on with the last one.
  void change(const Schedule& schedule, MigrationPace pace);
  /// The next round that was not read yet; empty when the time is over, or all rounds of a run that
  /// was stopped have been read. Throws what a thread threw; then all have ended.
  std::optional<Round> next_round(std::chrono::duration<double> time, const Poll& poll);
  /// Until a round waits for its reader, or the time is over. Any thread, beside any other call.
  void await_round(std::chrono::duration<double> time) { rounds_.wait(time); }

  /// Lets the workers empty their queues, ends all threads, and returns what the whole run counted.
  /// Throws for a wrong answer, see check_answers().
  Measurement stop(const Poll& poll);
  /// Ends all threads at once. Queries that wait in queues are not answered, and nothing is
  /// reported. Changes nothing once the run has ended.
  void end() noexcept;
  bool running() const noexcept { return crew_.has_value(); }

 private:
  /// Ends all threads if `work` throws.
  template <typename Work>
  auto guarded(Work work);
  void require_running() const;

  const MeasureOptions options_;
  ServedIndex& index_;
  Written& written_;
  const std::uint64_t size_before_;  ///< of an index that is not ours
  const Homes& homes_;
  const Plan plan_;
  RoundCollector collector_;
  RoundQueue rounds_;
  std::optional<Exclusive> exclusive_;
  std::optional<Crew> crew_;  ///< after all that its threads use
};

}  // namespace pmoss::runtime
