#include "index/rtree.hpp"

#include <memory>

#include "analytic/rtree_profile.hpp"
#include "kinds/built_in.hpp"
#include "kinds/served_rtree.hpp"
#include "recording/record_rtree.hpp"

namespace pmoss::kinds {

IndexKind rtree() {
  return {
      .name = "rtree",
      .title = "R-tree",
      .records = Records::points,
      .usual_workload = "rtree-ranges-5m",
      .serve = [](const WorkloadSpec& spec,
                  const ServeOptions& options) -> std::unique_ptr<runtime::ServedIndex> {
        RTree::Options of_tree;
        of_tree.grid = grid_of(options.slices);
        of_tree.huge_pages = options.huge_pages;
        of_tree.placement = options.placement;
        return std::make_unique<ServedRTree>(spec, of_tree);
      },
      .record = recording::record_rtree,
      .make_profiler = [](const WorkloadSpec& spec, std::uint32_t slices,
                          const recording::TraceOptions& options) -> Profiler {
        const auto profiler =
            std::make_shared<const analytic::RTreeProfiler>(spec, slices, options);
        return [profiler](std::uint64_t seed) { return profiler->profiles(seed); };
      },
  };
}

}  // namespace pmoss::kinds
