#include <memory>

#include "analytic/rtree_profile.hpp"
#include "kinds/built_in.hpp"
#include "recording/record_rtree.hpp"

namespace pmoss::kinds {

IndexKind rtree() {
  return {
      .name = "rtree",
      .title = "R-tree",
      .records = Records::points,
      .usual_workload = "rtree-ranges-5m",
      .serve = serve_rtree(),
      .record = recording::record_rtree,
      .make_profiler = [](const WorkloadSpec& spec, std::uint32_t slices,
                          const recording::TraceOptions& options) -> Profiler {
        const auto profiler =
            std::make_shared<const analytic::RTreeProfiler>(spec, slices, options);
        return [profiler](std::uint64_t seed) { return profiler->profiles(seed); };
      },
      .large_values = true,
  };
}

}  // namespace pmoss::kinds
