// The system under test on this host: an index, and measurements of schedules on it. A measurement
// is a live run (live.hpp) that is stopped when its time is over.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/errors.hpp"
#include "runtime/live.hpp"
#include "runtime/loading.hpp"
#include "runtime/measure_options.hpp"
#include "runtime/measurement.hpp"
#include "runtime/served_index.hpp"
#include "runtime/threads.hpp"
#include "workload/generator.hpp"

namespace pmoss::runtime {

/// Owns an index of `spec.records` keys or points and measures schedules on it. Inserts stay in the
/// index; later measurements insert other keys. One call at a time.
class Runner {
 public:
  /// `index`: of the same spec, empty. `load_threads`: 0 takes one per CPU that the process may
  /// use. Throws std::invalid_argument for a spec that cannot be measured.
  Runner(const WorkloadSpec& spec, std::unique_ptr<ServedIndex> index, unsigned load_threads = 0);

  /// Called about 20 times a second on the caller's thread. True asks to stop; an exception stops
  /// as well, and leaves load() or measure() once all threads have ended.
  using Poll = runtime::Poll;
  using Progress = std::function<bool(std::uint64_t records_done)>;

  /// Inserts all records, and has a sample of them checked (check_answers()). Throws
  /// std::invalid_argument if there is less memory than they need, Cancelled (then it can be called
  /// again), std::bad_alloc, RunnerError.
  ///
  /// With `nodes`, [slices], bound loaders touch the data of each slice first on its node: for an
  /// index that hides its memory. Throws PlacementRefused for a node without CPUs, and
  /// std::invalid_argument for an index that does not hide it.
  void load(const Progress& progress = {}, const std::vector<int>& nodes = {});

  /// Begins to serve queries under the options' schedule, and returns when they flow. The runner
  /// must outlive the run, and cannot be used otherwise until that has ended. Throws like
  /// measure().
  std::unique_ptr<LiveRun> start(const MeasureOptions& options, const Poll& poll = {});

  /// Throws std::invalid_argument, RunnerError, Cancelled, PlacementRefused.
  Measurement measure(const MeasureOptions& options, const Poll& poll = {});

  const WorkloadSpec& spec() const noexcept { return spec_; }
  const ServedIndex& index() const noexcept { return *index_; }
  bool loaded() const noexcept { return loaded_; }
  /// What bound loaders did, if there were any. Any thread may ask, while others load as well.
  LoadReport load_report() const;
  /// No record from here on has been inserted.
  std::uint64_t next_insert_record() const noexcept { return written_.next_insert_record; }

 private:
  std::vector<Loader> plan_loaders(const std::vector<int>& nodes) const;
  void load_with(std::vector<Loader>& loaders, const Progress& progress);
  void report(LoadReport load_report);

  WorkloadSpec spec_;
  std::unique_ptr<ServedIndex> index_;
  unsigned load_threads_;
  Homes homes_;
  std::atomic<bool> busy_{false};
  bool loaded_ = false;
  mutable std::mutex report_mutex_;
  LoadReport load_report_;
  std::vector<int> loaded_on_;  ///< the nodes that the last load() was given
  Written written_;
};

}  // namespace pmoss::runtime
