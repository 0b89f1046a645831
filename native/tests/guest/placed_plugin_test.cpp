// Users' libraries on several nodes: the pages of a slice follow it, or are first touched on its
// node. Runs in the guest, which is given the libraries.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kinds/index_kind.hpp"
#include "kinds/plugin.hpp"
#include "numa/affinity.hpp"
#include "numa/topology.hpp"
#include "runtime/runner.hpp"

namespace pmoss::kinds {
namespace {

constexpr std::uint32_t slices = 16;

class PlacedPlugin : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* const variable : {"PMOSS_GUEST_PLUGINS", "PMOSS_GUEST_HIDDEN"}) {
      if (std::getenv(variable) == nullptr) GTEST_SKIP() << variable << ": only in the guest";
    }
    for (const numa::Cpu& cpu : numa::read_topology().cpus)
      first_cpu_.try_emplace(cpu.node, cpu.id);
  }

  static std::vector<std::string> libraries(const char* variable) {
    std::vector<std::string> result;
    std::istringstream words(std::getenv(variable));
    for (std::string path; std::getline(words, path, ':');) result.push_back(path);
    return result;
  }

  /// Lookups alone: what is written comes to lie elsewhere.
  static std::unique_ptr<runtime::Runner> runner_of(const std::string& library,
                                                    std::uint64_t records) {
    WorkloadSpec spec;
    spec.records = records;
    spec.lookup = 1.0;
    spec.insert = spec.scan = spec.update = 0.0;
    return make_runner(kind_named(register_plugin(library)), spec, {.slices = slices});
  }

  runtime::MeasureOptions options(const std::vector<int>& nodes) const {
    runtime::MeasureOptions options;
    options.worker_cpus = numa::allowed_cpus();
    options.schedule.nodes = nodes;
    for (const int node : nodes) options.schedule.cores.push_back(first_cpu_.at(node));
    options.schedule.data = DataPlacement::slice;
    options.migration.pace = runtime::MigrationPace::aggressive;
    options.seconds = 0.1;
    options.warmup_seconds = 0.02;
    return options;
  }

  int nodes() const { return static_cast<int>(first_cpu_.size()); }

  std::map<int, int> first_cpu_;
};

TEST_F(PlacedPlugin, PagesFollowTheirSlices) {
  for (const std::string& library : libraries("PMOSS_GUEST_PLUGINS")) {
    const auto runner = runner_of(library, 30'000);
    runner->load({});
    for (int turn = 0; turn < 2; ++turn) {
      std::vector<int> wanted;
      for (std::uint32_t slice = 0; slice < slices; ++slice) {
        wanted.push_back((static_cast<int>(slice) + turn) % nodes());
      }
      const runtime::Measurement result = runner->measure(options(wanted), {});
      EXPECT_EQ(result.not_found, 0U);
      std::uint64_t pages = 0, home = 0;
      for (const runtime::SlicePlacement& placement : result.slice_placements) {
        EXPECT_GT(placement.pages, 5U) << library;
        pages += placement.pages;
        home += placement.home;
      }
      // Neighbours share pages at their ends, and which of them gets such a page is open. Pages
      // that followed no slice would be at home in one of four cases.
      EXPECT_GT(static_cast<double>(home), 0.8 * static_cast<double>(pages)) << library;
      std::printf("PLACED %s turn %d: %llu of %llu pages\n", library.c_str(), turn,
                  static_cast<unsigned long long>(home), static_cast<unsigned long long>(pages));
    }
  }
}

TEST_F(PlacedPlugin, BoundLoadersTouchHiddenMemoryFirst) {
  ASSERT_GT(nodes(), 1);
  // Half of the slices on the first node, the rest on the others.
  std::vector<int> wanted(slices, 0);
  for (std::uint32_t slice = slices / 2; slice < slices; ++slice) {
    wanted[slice] = 1 + static_cast<int>(slice) % (nodes() - 1);
  }
  std::map<int, int> share;
  for (const int node : wanted) ++share[node];
  for (const std::string& library : libraries("PMOSS_GUEST_HIDDEN")) {
    const auto runner = runner_of(library, 100'000);
    runner->load({}, wanted);
    const runtime::LoadReport report = runner->load_report();
    ASSERT_EQ(report.error_number, 0);
    for (const runtime::Loader& loader : report.loaders) {
      EXPECT_EQ(numa::read_topology().find(loader.cpu)->node, loader.node);
    }
    double pages = 0;
    for (const auto& [node, grown] : report.pages) pages += static_cast<double>(grown);
    for (const auto& [node, count] : share) {
      const double grown_here = static_cast<double>(report.pages.at(node));
      EXPECT_NEAR(grown_here / pages, static_cast<double>(count) / slices, 0.05) << "node " << node;
      std::printf("LOADED %s node %d: %.0f of %.0f pages, %d of %u slices\n", library.c_str(), node,
                  grown_here, pages, count, slices);
    }
    EXPECT_GT(runner->measure(options(wanted), {}).executed, 0U);
    std::vector<int> others = wanted;
    others.back() = 0;
    EXPECT_THROW(runner->measure(options(others), {}), runtime::PlacementRefused);
  }
}

}  // namespace
}  // namespace pmoss::kinds
