// An index of a user's library behind the runtime.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinds/load_progress.hpp"
#include "kinds/plugin_index.hpp"
#include "kinds/sampled_answers.hpp"
#include "kinds/served_keys.hpp"
#include "runtime/served_index.hpp"

namespace pmoss::kinds {

/// Slices are key ranges that only the runtime knows. The kernel moves their pages, where the
/// library tells which these are.
class ServedPlugin final : public runtime::ServedIndex {
 public:
  /// Throws PluginError, and std::invalid_argument for a workload that the library cannot serve.
  ServedPlugin(std::shared_ptr<const PluginLibrary> library, const WorkloadSpec& spec,
               std::uint32_t slices);

  std::uint32_t slices() const noexcept override { return index_.slices(); }
  std::uint64_t size() const noexcept override { return index_.size(); }
  runtime::SliceOfKey slice_of_key() const noexcept override {
    return runtime::SliceOfKey(slices());
  }
  double bytes_to_load() const noexcept override { return bytes_to_load_; }
  void load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
            const std::function<bool()>& cancelled) override;
  void load_chosen(const std::vector<bool>& slices, std::atomic<std::uint64_t>& done,
                   const std::function<bool()>& cancelled) override;
  std::unique_ptr<runtime::QueryStream> stream(std::uint64_t seed,
                                               std::uint64_t first_insert_record,
                                               std::uint64_t insert_stride) const override;
  runtime::InNodeMemory<runtime::QueryExecutor> executor(
      std::pmr::memory_resource& memory) override;

  numa::PlacedMemory& memory(std::uint32_t slice) override { return memory_.at(slice); }
  const numa::PlacedMemory& memory(std::uint32_t slice) const override { return memory_.at(slice); }
  std::string hidden_memory() const override;
  void free_spare_memory() override {}
  bool copies() const noexcept override { return false; }
  std::unique_ptr<SliceMigration> migrate(std::uint32_t slice, const numa::Placement& to) override;
  std::size_t reclaim() override { return 0; }

  bool is_foreign() const noexcept override { return true; }
  void check_answers(const runtime::Written& written,
                     const std::function<bool()>& cancelled) override {
    answers_.check(index_, written, cancelled);
  }

 private:
  bool load_slice(std::uint32_t slice, std::span<std::uint64_t> keys,
                  std::span<std::uint64_t> scratch, LoadProgress& progress,
                  const std::function<bool()>& cancelled);

  WorkloadSpec spec_;
  PluginIndex index_;
  PluginOfValues values_{index_};
  SampledAnswers answers_;
  double bytes_to_load_ = 0.0;
  std::vector<std::uint8_t> begun_;  ///< [slices] whether it may hold records
  std::vector<PluginSliceMemory> memory_;
};

}  // namespace pmoss::kinds
