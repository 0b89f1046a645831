#include "kinds/served_plugin.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kinds/own_words.hpp"
#include "recording/sort_keys.hpp"

namespace pmoss::kinds {
ServedPlugin::ServedPlugin(std::shared_ptr<const PluginLibrary> library, const WorkloadSpec& spec,
                           std::uint32_t slices)
    : spec_((validate(spec), spec)),
      index_(std::move(library), {slices, spec.records, spec.value_bytes}),
      answers_(spec, slices),
      begun_(slices) {
  if (spec.scan > 0.0 && !index_.has_scan()) {
    throw std::invalid_argument("the workload scans, and plugin '" + index_.library().path() +
                                "' has no scan: choose a workload without scans");
  }
  for (std::uint32_t slice = 0; slice < slices; ++slice) memory_.emplace_back(index_, slice);
  // Loading holds all keys besides, and sorts those of a slice into as much memory again.
  const double held = index_.loads_sorted() ? 2.0 * sizeof(OwnWords::Word) : sizeof(OwnWords::Word);
  bytes_to_load_ = (index_.bytes_per_record() + held) * static_cast<double>(spec.records);
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
  LoadProgress progress(done, spec_.records, chosen);
  // Calls visit(slice, key) for the records of the chosen slices; false if cancelled.
  const auto each = [&](auto visit) {
    for (std::uint64_t record = 0; record < spec_.records; ++record) {
      if ((record & 0xfff) == 0) {
        if (cancelled()) return false;
        progress.pass(record);
      }
      const std::uint64_t key = spec_.space.key(record, spec_.seed);
      const std::uint32_t slice = pmoss::slice_of_key(key, slices());
      if (chosen[slice]) visit(slice, key);
    }
    progress.end_pass();
    return true;
  };
  std::vector<std::uint64_t> end(slices());  // of the keys of each slice
  if (!each([&](std::uint32_t slice, std::uint64_t) { ++end[slice]; })) return;
  std::uint64_t largest = end.front();
  for (std::uint32_t slice = 1; slice < slices(); ++slice) {
    largest = std::max(largest, end[slice]);
    end[slice] += end[slice - 1];
  }
  const OwnWords held(end.back());
  const OwnWords scratch(index_.loads_sorted() ? largest : 0);
  std::vector<std::uint64_t> next(slices());  // where the next key of a slice goes
  std::copy(end.begin(), end.end() - 1, next.begin() + 1);
  if (!each([&](std::uint32_t slice, std::uint64_t key) { held.data()[next[slice]++] = key; })) {
    return;
  }
  progress.expect(held.size());
  const std::span<std::uint64_t> all(held.data(), held.size());
  for (std::uint32_t slice = 0; slice < slices(); ++slice) {
    const std::uint64_t first = slice > 0 ? end[slice - 1] : 0;
    const auto keys = all.subspan(first, end[slice] - first);
    if (keys.empty()) continue;
    if (!load_slice(slice, keys, {scratch.data(), scratch.size()}, progress, cancelled)) return;
  }
}

/// False if cancelled.
bool ServedPlugin::load_slice(std::uint32_t slice, std::span<std::uint64_t> keys,
                              std::span<std::uint64_t> scratch, LoadProgress& progress,
                              const std::function<bool()>& cancelled) {
  // A load that was cancelled, or that failed, is begun again.
  const bool fresh = std::exchange(begun_[slice], std::uint8_t{1}) == 0;
  if (fresh && index_.loads_sorted()) {
    if (cancelled()) return false;
    recording::sort_keys(keys, scratch);
    const auto end = std::unique(keys.begin(), keys.end());
    answers_.note(slice, {keys.begin(), end});
    index_.load_sorted(slice, {keys.begin(), end});
    progress.load(keys.size());
    return true;
  }
  answers_.note(slice, keys);
  constexpr std::size_t part = 4096;
  for (std::size_t i = 0; i < keys.size(); i += part) {
    if (cancelled()) return false;
    const auto some = keys.subspan(i, std::min(part, keys.size() - i));
    index_.load(some);
    progress.load(some.size());
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
  if (index_.has_large_values()) {
    return runtime::make_in<ExecutorOfKeys<PluginOfValues>>(memory, memory, values_,
                                                            spec_.max_scan_length);
  }
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
