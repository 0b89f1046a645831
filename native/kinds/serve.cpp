// The built-in kinds behind the runtime.
#include "index/btree.hpp"
#include "index/rtree.hpp"
#include "kinds/built_in.hpp"
#include "kinds/large_values.hpp"
#include "kinds/served_btree.hpp"
#include "kinds/served_rtree.hpp"
#include "runtime/runner.hpp"

namespace pmoss::kinds {

const bool indexes_are_served = true;

Serve serve_btree() {
  return [](const WorkloadSpec& spec,
            const ServeOptions& options) -> std::unique_ptr<runtime::ServedIndex> {
    const BTree::Options of_tree{options.slices, options.huge_pages, options.placement};
    if (spec.value_bytes == sizeof(std::uint64_t)) {
      return std::make_unique<ServedBTree>(spec, of_tree);
    }
    return std::make_unique<ServedValues>(spec, BTreeOfValues::Options{of_tree, spec.value_bytes});
  };
}

Serve serve_rtree() {
  return [](const WorkloadSpec& spec,
            const ServeOptions& options) -> std::unique_ptr<runtime::ServedIndex> {
    RTree::Options of_tree;
    of_tree.grid = grid_of(options.slices);
    of_tree.huge_pages = options.huge_pages;
    of_tree.placement = options.placement;
    if (spec.value_bytes == sizeof(std::uint64_t)) {
      return std::make_unique<ServedRTree>(spec, of_tree);
    }
    return std::make_unique<ServedRTreeOfValues>(spec,
                                                 RTreeOfValues::Options{of_tree, spec.value_bytes});
  };
}

std::unique_ptr<runtime::Runner> make_runner(const IndexKind& kind, const WorkloadSpec& spec,
                                             const ServeOptions& options, unsigned load_threads) {
  if (!kind.large_values) require_word_values(spec, "the index '" + kind.name + "' holds");
  return std::make_unique<runtime::Runner>(spec, kind.serve(spec, options), load_threads);
}

}  // namespace pmoss::kinds
