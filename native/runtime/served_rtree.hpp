// The R-tree behind the runtime.
#pragma once

#include "index/rtree.hpp"
#include "runtime/served_index.hpp"

namespace pmoss::runtime {

class ServedRTree final : public ServedIndex {
 public:
  /// Throws std::invalid_argument for a spec or options that make no sense.
  ServedRTree(const WorkloadSpec& spec, const RTree::Options& options);

  const RTree& tree() const noexcept { return tree_; }

  std::uint32_t slices() const noexcept override { return tree_.slices(); }
  std::uint64_t size() const noexcept override { return tree_.size(); }
  SliceOfKey slice_of_key() const noexcept override { return SliceOfKey(tree_.grid()); }
  double bytes_to_load() const noexcept override;
  void load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
            const std::function<bool()>& cancelled) override;
  std::unique_ptr<QueryStream> stream(std::uint64_t seed, std::uint64_t first_insert_record,
                                      std::uint64_t insert_stride) const override;
  std::unique_ptr<QueryExecutor> executor() override;
  std::unique_ptr<SliceMigration> migrate(std::uint32_t slice, const numa::Placement& to) override;
  numa::ResidentPages resident_pages(std::uint32_t slice) const override;
  numa::PageMove move_pages(std::uint32_t slice, int node) override;
  void place_from_now_on(std::uint32_t slice, const numa::Placement& placement) override;

 private:
  WorkloadSpec spec_;
  RTree tree_;
};

}  // namespace pmoss::runtime
