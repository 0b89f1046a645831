// The threads of one measurement, and what they share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "pmu/counters.hpp"
#include "pmu/offcore.hpp"
#include "runtime/control.hpp"
#include "runtime/enforcement.hpp"
#include "runtime/node_memory.hpp"
#include "runtime/plan.hpp"
#include "runtime/router.hpp"
#include "runtime/schedule.hpp"
#include "runtime/served_index.hpp"
#include "runtime/sweeping.hpp"
#include "runtime/threads.hpp"
#include "runtime/worker.hpp"

namespace pmoss::runtime {

/// start(), warm_up(), begin(), wait(), end() and drain(), in this order; wait() as often as
/// wanted, the others once. They throw RunnerError for a thread that failed, Cancelled, and what
/// `poll` or the plan's on_rounds throw. The threads end with the crew, also after an exception.
class Crew {
 public:
  /// Takes the inserts' records from `written` on, and moves that past them when it dies.
  /// `tell`: see Stitcher.
  Crew(const Plan& plan, ServedIndex& index, Homes& homes, Written& written,
       std::function<void(WholeRound)> tell = {});

  /// Starts all threads and waits until they are bound to their CPUs and have touched their memory.
  void start(const Poll& poll);
  /// Lets queries flow, and waits for data that move aggressively.
  void warm_up(const Poll& poll);
  /// The measuring phase begins.
  void begin();
  /// Some time of it.
  void wait(std::chrono::duration<double> time, const Poll& poll);
  /// The measuring phase ends.
  void end();
  /// Lets the workers empty their queues, and joins all threads.
  void drain(const Poll& poll);

  /// Throws what a thread threw.
  void check() { threads_.check(); }
  /// All threads leave at once. No other member may be called after it.
  void abort() { threads_.abort(); }
  /// From begin() on; not null if the plan enforces.
  Enforcement* enforcement() noexcept { return enforcement_ ? &*enforcement_ : nullptr; }

  // What collect() reads, after drain().
  const std::vector<InNodeMemory<Worker>>& workers() const noexcept { return workers_; }
  /// [workers] what each worker's queues and counts lie in.
  const std::vector<std::unique_ptr<NodeMemory>>& memories() const noexcept { return memories_; }
  const std::vector<InNodeMemory<Router>>& routers() const noexcept { return routers_; }
  /// As far as they were counted in the measuring phase.
  std::vector<pmu::OffcoreQuantity> offcore() const {
    return offcore_.quantities_between(offcore_begin_, offcore_end_);
  }
  const pmu::OffcoreCounters& offcore_counters() const noexcept { return offcore_; }
  const std::vector<pmu::OffcoreCounters::Counts>& offcore_begin() const noexcept {
    return offcore_begin_;
  }
  /// [quantities] bytes of the measuring phase.
  std::vector<double> offcore_bytes() const {
    return offcore_.bytes_between(offcore_begin_, offcore_end_);
  }
  const StitchedRounds& rounds() const noexcept { return stitcher_.rounds(); }
  /// Null if nothing had to be enforced.
  const Enforcement* enforcement() const noexcept {
    return enforcement_ ? &*enforcement_ : nullptr;
  }
  std::uint64_t streamed_bytes() const noexcept { return streamed_bytes_.load(); }
  double seconds() const noexcept { return seconds_; }
  /// When the measuring phase ended, in ticks since the origin that stamps count from.
  std::uint64_t end_ticks() const noexcept { return end_ticks_; }
  double placing_seconds() const noexcept { return placing_seconds_; }

 private:
  // Also after an exception, no record that a router may have drawn is drawn again. No value that a
  // worker may have written is forgotten.
  struct AdvanceRecords {
    Written& written;
    const std::vector<InNodeMemory<Router>>& routers;
    ~AdvanceRecords();
  };

  void make_router(std::size_t number, NodeMemory& memory);
  Router* connect(std::size_t router);
  void start_worker(std::size_t number);
  void start_router(std::size_t number);
  void start_co_tenant(std::size_t number);
  void make_enforcement();
  void start_sweepers();
  /// Bound to the CPU unless that is negative.
  template <typename Body>
  void start_helper(std::string name, int cpu, Body body);
  void report_rounds();

  const Plan& plan_;
  const pmu::RaisedDescriptorLimit many_files_;
  ServedIndex& index_;
  Homes& homes_;
  const std::uint64_t origin_;  ///< clock ticks that stamps count from
  RouteBoard board_;
  const std::uint64_t first_insert_record_;  ///< of the routers
  std::vector<std::unique_ptr<NodeMemory>> memories_, router_memories_;
  std::vector<InNodeMemory<Router>> routers_;
  AdvanceRecords advance_;
  std::vector<InNodeMemory<Worker>> workers_;
  std::atomic<std::size_t> routers_running_;
  const pmu::OffcoreCounters offcore_;
  Rounds rounds_;
  Stitcher stitcher_;
  std::size_t rounds_reported_ = 0;
  std::optional<Enforcement> enforcement_;
  std::atomic<std::uint64_t> streamed_bytes_{0};
  std::vector<pmu::OffcoreCounters::Counts> offcore_begin_, offcore_end_;
  std::uint64_t begin_ticks_ = 0;
  std::uint64_t end_ticks_ = 0;
  double seconds_ = 0.0;
  double placing_seconds_ = 0.0;
  Control control_;
  Threads threads_{control_};  ///< after all that its threads use
};

}  // namespace pmoss::runtime
