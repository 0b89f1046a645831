#include "runtime/runner.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "numa/affinity.hpp"
#include "numa/available_memory.hpp"
#include "runtime/control.hpp"
#include "runtime/item.hpp"
#include "runtime/threads.hpp"

namespace pmoss::runtime {
namespace {

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

std::unique_ptr<LiveRun> Runner::start(const MeasureOptions& options, const Poll& poll) {
  Exclusive exclusive(busy_);
  if (!loaded_) throw RunnerError("the index is empty: call load() first");
  auto run = std::make_unique<LiveRun>(options, *index_, homes_, next_insert_record_,
                                       std::move(exclusive));
  run->start(poll);
  return run;
}

Measurement Runner::measure(const MeasureOptions& options, const Poll& poll) {
  if (options.until_stopped) {
    throw std::invalid_argument(
        "until_stopped is true; a measurement ends by itself: call start()");
  }
  const std::unique_ptr<LiveRun> run = start(options, poll);
  run->wait(std::chrono::duration<double>(options.seconds), poll);
  return run->stop(poll);
}

}  // namespace pmoss::runtime
