// Models of a small machine and schedules for them, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "analytic/btree_profile.hpp"
#include "analytic/model.hpp"
#include "tests/analytic/small_workload.hpp"
#include "tests/machine/small_machine.hpp"
#include "workload/random.hpp"

namespace pmoss::analytic {

inline WorkloadSpec workload() { return lookups_and_inserts(5'000'000); }

struct Placed {
  std::vector<std::int32_t> cores, nodes;
};

inline Placed random_schedule(const Machine& machine, int slices, std::uint64_t seed, bool local) {
  Random random(seed);
  Placed p;
  for (int s = 0; s < slices; ++s) {
    const auto core = static_cast<std::int32_t>(random.below(8));
    p.cores.push_back(core);
    p.nodes.push_back(local ? machine.node_of_core[static_cast<std::size_t>(core)]
                            : static_cast<std::int32_t>(random.below(4)));
  }
  return p;
}

/// A model with an instance.
struct ReadyModel : Model {
  ReadyModel(const Machine& machine, Load load, SliceProfiles profiles,
             const Interference& interference, ModelOptions options = {})
      : Model(machine, load, options) {
    set_instance(std::move(profiles), interference);
  }
};

inline ReadyModel model_of(const Machine& machine, Load load, int slices = 64,
                           const Interference& interference = {}, ModelOptions options = {}) {
  return {machine, load, BTreeProfiler(workload(), slices).profiles(1), interference, options};
}

/// Co-tenants that take nothing.
inline Interference quiet() {
  Interference n;
  n.busy_share.assign(8, 0.0);
  n.sibling_busy_share.assign(8, 0.0);
  n.llc_lines_per_ns.assign(4, 0.0);
  n.dram_gb_per_s.assign(4, 0.0);
  n.link_gb_per_s.assign(4, 0.0);
  return n;
}

/// Every query of a slice also touches lines of the next one.
inline SliceProfiles overlapping(int slices) {
  SliceProfiles profiles = BTreeProfiler(workload(), slices).profiles(1);
  for (int s = 0; s < slices; ++s) {
    profiles.shared.push_back({(s + slices - 1) % slices, s, 0.3});
  }
  return profiles;
}

class EveryLoad : public ::testing::TestWithParam<Load::Kind> {
 protected:
  Load load() const { return Load{GetParam(), 32, 5.0}; }
};

}  // namespace pmoss::analytic
