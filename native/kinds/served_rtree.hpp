// The R-tree behind the runtime.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "index/rtree.hpp"
#include "index/rtree_migration.hpp"
#include "kinds/large_values.hpp"
#include "runtime/served_tree.hpp"

namespace pmoss::kinds {

/// `Tree` is an RTree, or like it. Defined for those below.
template <class Tree, class Migration>
class ServedPoints final : public runtime::ServedTree<Tree, Migration> {
 public:
  /// Throws std::invalid_argument for a spec or options that make no sense.
  ServedPoints(const WorkloadSpec& spec, const typename Tree::Options& options);

  runtime::SliceOfKey slice_of_key() const noexcept override {
    return runtime::SliceOfKey(tree_.grid());
  }
  double bytes_to_load() const noexcept override;
  void load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
            const std::function<bool()>& cancelled) override;
  std::unique_ptr<runtime::QueryStream> stream(std::uint64_t seed,
                                               std::uint64_t first_insert_record,
                                               std::uint64_t insert_stride) const override;
  runtime::InNodeMemory<runtime::QueryExecutor> executor(
      std::pmr::memory_resource& memory) override;

 private:
  using runtime::ServedTree<Tree, Migration>::spec_;
  using runtime::ServedTree<Tree, Migration>::tree_;
};

using ServedRTree = ServedPoints<RTree, RTreeMigration>;
using ServedRTreeOfValues = ServedPoints<RTreeOfValues, void>;

}  // namespace pmoss::kinds
