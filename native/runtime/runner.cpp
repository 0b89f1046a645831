#include "runtime/runner.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "numa/affinity.hpp"
#include "numa/available_memory.hpp"
#include "runtime/collect.hpp"
#include "runtime/control.hpp"
#include "runtime/crew.hpp"
#include "runtime/item.hpp"
#include "runtime/plan.hpp"
#include "runtime/threads.hpp"

namespace pmoss::runtime {
namespace {

// Only one load() or measure() at a time: both would drive the same index and the same records.
class Exclusive {
 public:
  explicit Exclusive(std::atomic<bool>& busy) : busy_(busy) {
    if (busy_.exchange(true)) throw RunnerError("the runner is already loading or measuring");
  }
  ~Exclusive() { busy_.store(false); }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  std::atomic<bool>& busy_;
};

const WorkloadSpec& checked(const WorkloadSpec& spec) {
  if (spec.max_scan_length > Item::max_scan_length) {
    throw std::invalid_argument("max_scan_length is " + std::to_string(spec.max_scan_length) +
                                "; it must be at most " + std::to_string(Item::max_scan_length));
  }
  return spec;
}

}  // namespace

Runner::Runner(const WorkloadSpec& spec, std::unique_ptr<ServedIndex> index, unsigned load_threads)
    : spec_(checked(spec)),
      index_(std::move(index)),
      load_threads_(load_threads > 0 ? load_threads
                                     : static_cast<unsigned>(numa::allowed_cpus().size())),
      homes_(index_->slices()),
      next_insert_record_(spec.records) {}

void Runner::load(const Progress& progress) {
  const Exclusive exclusive(busy_);
  numa::require_memory(index_->bytes_to_load(),
                       "an index of " + std::to_string(spec_.records) + " records",
                       "ask for fewer records");
  const std::uint32_t slices = index_->slices();
  homes_.assign(slices, std::nullopt);
  const std::uint32_t loaders = std::min(load_threads_, slices);
  // A line for each: they count often.
  struct alignas(128) Count {
    std::atomic<std::uint64_t> done{0};
  };
  const auto counts = std::make_unique<Count[]>(loaders);

  Control control;
  Threads threads(control);
  for (std::uint32_t number = 0; number < loaders; ++number) {
    const std::uint64_t first = std::uint64_t{slices} * number / loaders;
    const std::uint64_t last = std::uint64_t{slices} * (number + 1) / loaders;
    threads.start("loader " + std::to_string(number), [&, number, first, last] {
      index_->load(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last),
                   counts[number].done, [&] { return control.phase() == Phase::abort; });
    });
  }
  const auto records_done = [&] {
    std::uint64_t sum = 0;
    for (std::uint32_t number = 0; number < loaders; ++number) {
      sum += counts[number].done.load(std::memory_order_relaxed);
    }
    return sum;
  };
  Poll poll;
  if (progress) poll = [&] { return progress(records_done()); };
  threads.join(poll);
  if (progress) progress(records_done());
  loaded_ = true;
}

Measurement Runner::measure(const MeasureOptions& options, const Poll& poll) {
  const Exclusive exclusive(busy_);
  if (!loaded_) throw RunnerError("the index is empty: call load() first");
  const Plan plan = make_plan(options, index_->slices());
  Crew crew(plan, *index_, homes_, next_insert_record_);
  crew.start(poll);
  crew.warm_up(poll);
  crew.measure(poll);
  crew.drain(poll);
  return collect(plan, crew);
}

}  // namespace pmoss::runtime
