// The B+-tree behind the runtime.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "index/btree.hpp"
#include "index/btree_migration.hpp"
#include "runtime/served_tree.hpp"

namespace pmoss::kinds {

class ServedBTree final : public runtime::ServedTree<BTree, BTreeMigration> {
 public:
  /// Throws std::invalid_argument for a spec or options that make no sense.
  ServedBTree(const WorkloadSpec& spec, const BTree::Options& options);

  runtime::SliceOfKey slice_of_key() const noexcept override {
    return runtime::SliceOfKey(tree().slices());
  }
  double bytes_to_load() const noexcept override;
  void load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
            const std::function<bool()>& cancelled) override;
  std::unique_ptr<runtime::QueryStream> stream(std::uint64_t seed,
                                               std::uint64_t first_insert_record,
                                               std::uint64_t insert_stride) const override;
  std::unique_ptr<runtime::QueryExecutor> executor() override;
};

}  // namespace pmoss::kinds
