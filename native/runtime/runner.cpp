#include "runtime/runner.hpp"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "numa/affinity.hpp"
#include "numa/available_memory.hpp"
#include "numa/process_pages.hpp"
#include "runtime/answers.hpp"
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
      written_{spec.records} {}

std::vector<Loader> Runner::plan_loaders(const std::vector<int>& nodes) const {
  const std::uint32_t slices = index_->slices();
  if (!nodes.empty()) {
    if (nodes.size() != slices) {
      throw std::invalid_argument("nodes has " + std::to_string(nodes.size()) + " entries for " +
                                  std::to_string(slices) + " slices");
    }
    if (index_->hidden_memory().empty()) {
      throw std::invalid_argument(
          "nodes is for an index that hides its memory; this one's data "
          "move once they are loaded");
    }
    return plan_bound_loaders(nodes, numa::read_topology(), numa::allowed_cpus(), load_threads_);
  }
  const std::uint32_t count = std::min(load_threads_, slices);
  std::vector<Loader> loaders(count);
  for (std::uint32_t number = 0; number < count; ++number) {
    loaders[number].slices.resize(slices);
    const auto first = static_cast<std::uint32_t>(std::uint64_t{slices} * number / count);
    const auto last = static_cast<std::uint32_t>(std::uint64_t{slices} * (number + 1) / count);
    for (std::uint32_t slice = first; slice < last; ++slice) loaders[number].slices[slice] = true;
  }
  return loaders;
}

void Runner::load(const Progress& progress, const std::vector<int>& nodes) {
  const Exclusive exclusive(busy_);
  numa::require_memory(index_->bytes_to_load(),
                       "an index of " + std::to_string(spec_.records) + " records",
                       "ask for fewer records");
  if (!nodes.empty() && index_->size() > 0 && nodes != loaded_on_) {
    throw RunnerError("the index holds data that others touched first: load a new one for nodes");
  }
  std::vector<Loader> loaders = plan_loaders(nodes);
  loaded_on_ = nodes;
  homes_.assign(index_->slices(), std::nullopt);
  report({});
  if (nodes.empty()) {
    load_with(loaders, progress);
  } else {
    // What an index before this one has left would not be touched first.
    ::malloc_trim(0);
    const numa::ResidentPages before = numa::process_pages();
    load_with(loaders, progress);
    const numa::ResidentPages after = numa::process_pages();
    report({std::move(loaders), numa::grown(before, after), after.error_number});
    for (std::size_t slice = 0; slice < nodes.size(); ++slice) {
      homes_[slice] = Home{numa::Placement::on(nodes[slice]), false};
    }
  }
  check_answers(*index_, written_, progress ? [&] { return progress(spec_.records); } : Poll());
  loaded_ = true;
}

LoadReport Runner::load_report() const {
  const std::lock_guard lock(report_mutex_);
  return load_report_;
}

void Runner::report(LoadReport load_report) {
  const std::lock_guard lock(report_mutex_);
  load_report_ = std::move(load_report);
}

void Runner::load_with(std::vector<Loader>& loaders, const Progress& progress) {
  // A line for each: they count often.
  struct alignas(128) Count {
    std::atomic<std::uint64_t> done{0};
  };
  const auto counts = std::make_unique<Count[]>(loaders.size());
  Control control;
  Threads threads(control);
  for (std::size_t number = 0; number < loaders.size(); ++number) {
    threads.start("loader " + std::to_string(number), [&, number] {
      Loader& loader = loaders[number];
      std::atomic<std::uint64_t>& done = counts[number].done;
      const auto cancelled = [&] { return control.phase() == Phase::abort; };
      if (loader.cpu >= 0) {
        numa::pin_thread(loader.cpu);
        index_->load_chosen(loader.slices, done, cancelled);
        loader.cpu = numa::current_cpu();
      } else {
        const auto first = std::find(loader.slices.begin(), loader.slices.end(), true);
        const auto last = std::find(first, loader.slices.end(), false);
        index_->load(static_cast<std::uint32_t>(first - loader.slices.begin()),
                     static_cast<std::uint32_t>(last - loader.slices.begin()), done, cancelled);
      }
    });
  }
  const auto records_done = [&] {
    std::uint64_t sum = 0;
    for (std::size_t number = 0; number < loaders.size(); ++number) {
      sum += counts[number].done.load(std::memory_order_relaxed);
    }
    return sum;
  };
  Poll poll;
  if (progress) poll = [&] { return progress(records_done()); };
  threads.join(poll);
  if (progress) progress(records_done());
}

std::unique_ptr<LiveRun> Runner::start(const MeasureOptions& options, const Poll& poll) {
  Exclusive exclusive(busy_);
  if (!loaded_) throw RunnerError("the index is empty: call load() first");
  auto run = std::make_unique<LiveRun>(options, *index_, homes_, written_, std::move(exclusive));
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
