#include "kinds/served_plugin.hpp"

#include <stdexcept>
#include <utility>

namespace pmoss::kinds {
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
}

void ServedPlugin::load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
                        const std::function<bool()>& cancelled) {
  constexpr std::size_t batch = 4096;
  const PluginIndex::Thread thread(index_);
  std::vector<std::uint64_t> keys;
  keys.reserve(batch);
  std::uint64_t loaded = 0;
  const auto flush = [&] {
    if (!keys.empty()) index_.load(keys);
    loaded += keys.size();
    keys.clear();
    done.store(loaded, std::memory_order_relaxed);
  };
  for (std::uint64_t record = 0; record < spec_.records; ++record) {
    if ((record & 0xfff) == 0 && cancelled()) return;
    const std::uint64_t key = spec_.space.key(record, spec_.seed);
    const std::uint32_t slice = pmoss::slice_of_key(key, slices());
    if (slice < first || slice >= last) continue;
    keys.push_back(key);
    if (keys.size() == batch) flush();
  }
  flush();
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
         "' has no visit_memory(), so nobody knows where its data lie; define it, or keep the data "
         "where they are";
}

std::unique_ptr<SliceMigration> ServedPlugin::migrate(std::uint32_t, const numa::Placement&) {
  throw std::logic_error("a plugin does not copy its nodes");
}

}  // namespace pmoss::kinds
