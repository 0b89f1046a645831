#include "kinds/served_plugin.hpp"

#include <malloc.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace pmoss::kinds {
namespace {

/// Of a loader, while it sorts them by slices: 32 MiB.
constexpr std::uint64_t most_held_keys = std::uint64_t{1} << 22;

}  // namespace

ServedPlugin::ServedPlugin(std::shared_ptr<const PluginLibrary> library, const WorkloadSpec& spec,
                           std::uint32_t slices)
    : spec_((validate(spec), spec)),
      index_(std::move(library), {slices, spec.records}),
      bytes_to_load_(index_.bytes_per_record() * static_cast<double>(spec.records)) {
  if (spec.scan > 0.0 && !index_.has_scan()) {
    throw std::invalid_argument("the workload scans, and plugin '" + index_.library().path() +
                                "' has no scan: choose a workload without scans");
  }
  for (std::uint32_t slice = 0; slice < slices; ++slice) memory_.emplace_back(index_, slice);
  // What a library frees goes back to the kernel. Pages that stay would not be touched first by
  // whoever loads the next index.
  ::mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

void ServedPlugin::load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
                        const std::function<bool()>& cancelled) {
  std::vector<bool> chosen(slices());
  std::fill(chosen.begin() + first, chosen.begin() + last, true);
  load_chosen(chosen, done, cancelled);
}

// Slice after slice: where the library's memory goes by the order of the records, a page then holds
// those of one slice, and can follow it.
void ServedPlugin::load_chosen(const std::vector<bool>& chosen, std::atomic<std::uint64_t>& done,
                               const std::function<bool()>& cancelled) {
  const PluginIndex::Thread thread(index_);
  // Calls told(slice, key) for the records of slices first .. last - 1; false if cancelled.
  const auto each = [&](std::uint32_t first, std::uint32_t last, auto told) {
    for (std::uint64_t record = 0; record < spec_.records; ++record) {
      if ((record & 0xfff) == 0 && cancelled()) return false;
      const std::uint64_t key = spec_.space.key(record, spec_.seed);
      const std::uint32_t slice = pmoss::slice_of_key(key, slices());
      if (slice >= first && slice < last && chosen[slice]) told(slice, key);
    }
    return true;
  };
  std::vector<std::uint64_t> records(slices());
  if (!each(0, slices(), [&](std::uint32_t slice, std::uint64_t) { ++records[slice]; })) return;
  std::uint64_t loaded = 0;
  for (std::uint32_t first = 0, last = 0; first < slices(); first = last) {
    std::vector<std::uint64_t> next(slices());  // where the next key of a slice goes
    std::uint64_t held = 0;
    do {
      next[last] = held;
      held += records[last++];
    } while (last < slices() && held + records[last] <= most_held_keys);
    std::vector<std::uint64_t> keys(held);
    if (!each(first, last,
              [&](std::uint32_t slice, std::uint64_t key) { keys[next[slice]++] = key; })) {
      return;
    }
    if (!load_keys(keys, loaded, done, cancelled)) return;
  }
}

/// False if cancelled.
bool ServedPlugin::load_keys(const std::vector<std::uint64_t>& keys, std::uint64_t& loaded,
                             std::atomic<std::uint64_t>& done,
                             const std::function<bool()>& cancelled) {
  constexpr std::size_t batch = 4096;
  for (std::size_t i = 0; i < keys.size(); i += batch) {
    if (cancelled()) return false;
    const std::size_t count = std::min(batch, keys.size() - i);
    index_.load(keys.data() + i, count);
    loaded += count;
    done.store(loaded, std::memory_order_relaxed);
  }
  return true;
}

std::unique_ptr<runtime::QueryStream> ServedPlugin::stream(std::uint64_t seed,
                                                           std::uint64_t first_insert_record,
                                                           std::uint64_t insert_stride) const {
  return stream_of_keys(OperationGenerator(spec_, seed, first_insert_record, insert_stride), spec_,
                        slices());
}

runtime::InNodeMemory<runtime::QueryExecutor> ServedPlugin::executor(
    std::pmr::memory_resource& memory) {
  // Executors end on another thread than the worker's, which the library must hear from itself.
  thread_local std::unique_ptr<PluginIndex::Thread> attached;
  attached.reset();
  attached = std::make_unique<PluginIndex::Thread>(index_);
  return runtime::make_in<ExecutorOfKeys<PluginIndex>>(memory, memory, index_,
                                                       spec_.max_scan_length);
}

std::string ServedPlugin::hidden_memory() const {
  if (index_.tells_memory()) return "";
  return "plugin '" + index_.library().path() +
         "' has no visit_memory(), so its data lie where they were touched first";
}

std::unique_ptr<SliceMigration> ServedPlugin::migrate(std::uint32_t, const numa::Placement&) {
  throw std::logic_error("a plugin does not copy its nodes");
}

}  // namespace pmoss::kinds
