#include <memory>

#include "analytic/btree_profile.hpp"
#include "kinds/built_in.hpp"
#include "recording/record.hpp"

namespace pmoss::kinds {

IndexKind btree() {
  return {
      .name = "btree",
      .title = "B+-tree",
      .records = Records::keys,
      .usual_workload = "ycsb-a",
      .serve = serve_btree(),
      .record = recording::record_btree,
      .make_profiler = [](const WorkloadSpec& spec, std::uint32_t slices,
                          const recording::TraceOptions&) -> Profiler {
        const auto profiler =
            std::make_shared<const analytic::BTreeProfiler>(spec, static_cast<int>(slices));
        return [profiler](std::uint64_t seed) { return profiler->profiles(seed); };
      },
      .large_values = true,
      .profiled_by_formulas = true,
  };
}

}  // namespace pmoss::kinds
