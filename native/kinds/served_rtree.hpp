// The R-tree behind the runtime.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "index/rtree.hpp"
#include "index/rtree_migration.hpp"
#include "runtime/served_tree.hpp"

namespace pmoss::kinds {

class ServedRTree final : public runtime::ServedTree<RTree, RTreeMigration> {
 public:
  /// Throws std::invalid_argument for a spec or options that make no sense.
  ServedRTree(const WorkloadSpec& spec, const RTree::Options& options);

  runtime::SliceOfKey slice_of_key() const noexcept override {
    return runtime::SliceOfKey(tree().grid());
  }
  double bytes_to_load() const noexcept override;
  void load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
            const std::function<bool()>& cancelled) override;
  std::unique_ptr<runtime::QueryStream> stream(std::uint64_t seed,
                                               std::uint64_t first_insert_record,
                                               std::uint64_t insert_stride) const override;
  runtime::InNodeMemory<runtime::QueryExecutor> executor(
      std::pmr::memory_resource& memory) override;
};

}  // namespace pmoss::kinds
