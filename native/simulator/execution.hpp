// What the queries of a trace cost the cores that run them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "machine/interference.hpp"
#include "machine/machine.hpp"
#include "recording/trace.hpp"
#include "simulator/memory_system.hpp"
#include "simulator/page_homes.hpp"
#include "simulator/slice_counts.hpp"
#include "simulator/tlb.hpp"

namespace pmoss::simulator {

/// Executes queries on the machine's caches, translations and memories, in the order in which they
/// begin. All touches of a query take place when it begins; the time of each is estimated.
///
/// A line whose lock a query takes counts as locked from the query's beginning to its end, for the
/// queries that begin in between. Queries that began before do not meet the lock, although it may
/// be taken while they run. Queries that begin after meet it too early, by as much. Let queries of
/// length T touch the line at f T. The share that meets a lock held from f T to T is (1 - f) either
/// way.
///
/// Where lines are sampled, a query is charged the mean wait of its core's latest queries. So its
/// own waits are not multiplied by the sampling. Response times then show the queues, and not how
/// single queries differ.
class Execution {
 public:
  /// What one query takes.
  struct Work {
    double ns;         ///< that its core is charged, at full speed
    double own_ratio;  ///< the query's own / ns: where lines are sampled, cores are charged a mean
  };

  /// `machine` must outlive it. Throws std::invalid_argument for what the directory cannot hold.
  Execution(const Machine& machine, std::shared_ptr<const recording::Trace> trace,
            Interference interference);

  /// Empties everything for a run in which pages lie where `homes` says.
  void reset(const PageHomes& homes);

  /// A query that begins on a core of `speed` (work per ns) at `now_ns`; adds to its slice's
  /// counts.
  Work begin(std::size_t core, std::uint32_t query, double now_ns, double speed,
             SliceCounts& counts);

  /// Has the host fetch what begin() will read. A core that waits for its queries' turn hides that.
  void prefetch(std::size_t core, std::uint32_t query) const noexcept {
    // All lines of all queries that queue are more than the host's caches hold.
    if (trace_->line_sampling == 1) return;
    const std::size_t physical = memory_.physical_of(core);
    for (const recording::Touch touch : trace_->touches_of(query)) {
      memory_.prefetch(physical, touch.line());
    }
    for (const std::uint32_t page : trace_->pages_of(query)) {
      tlb_.prefetch(physical, translated_[page]);
    }
  }

  /// Latencies follow the traffic of the epoch of `ns` that ends here.
  void close_epoch(double ns);

  /// The data of a slice are at another node from now on.
  void rehome(std::int32_t slice, int node);

  Contention& contention() { return memory_.contention(); }
  const recording::Trace& trace() const { return *trace_; }
  const Interference& co_tenants() const { return interference_; }
  const MemorySystem& memory() const { return memory_; }

 private:
  // The waits of one core's queries that were recorded, with the weight of what was not: what the
  // mean is made of. Old ones fade.
  struct MeanWait {
    double touches = 0;  // time that the touches of the same queries would take at 1 ns each
    double pages = 0;
    double line_ns = 0;  // all but memory under load
    double page_ns = 0;
    double queries = 0;
    double per_touch = 0, per_page = 0;  // the result
  };

  /// What the recorded pages of a query wait for their translation.
  double translate(std::size_t physical, std::uint32_t query, SliceCounts& counts);
  void update_mean(std::size_t core);

  const Machine& machine_;
  std::size_t nodes_;
  std::shared_ptr<const recording::Trace> trace_;
  Interference interference_;
  MemorySystem memory_;
  Tlb tlb_;
  std::vector<std::uint32_t> translated_;  // per recorded page: the machine's page it is part of

  // One run.
  std::vector<std::uint8_t> home_of_line_;
  std::vector<MeanWait> mean_;     // per core
  std::vector<double> mean_dram_;  // [core][memory's node]: waits at idle latency
  std::vector<double> foreign_;    // per domain: co-tenants' lines not yet brought in
};

}  // namespace pmoss::simulator
