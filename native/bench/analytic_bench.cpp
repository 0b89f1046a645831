// Speed of the analytic model on a server with 56 workers in 8 nodes and an index of 256 slices:
// CPU time of one call on one core, median [min..max] over seven rounds.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <vector>

#include "analytic/btree_profile.hpp"
#include "analytic/model.hpp"
#include "workload/random.hpp"

namespace pmoss {
namespace {

using analytic::BTreeProfiler;
using analytic::Model;

constexpr int slices = 256;

Machine server() {
  Machine m;
  for (int core = 0; core < 96; ++core) {
    m.node_of_core.push_back(core / 12);
    m.llc_of_core.push_back(core / 12);
    m.is_worker.push_back(core % 12 >= 3 && core % 12 < 10 ? 1 : 0);
  }
  m.socket_of_node = {0, 0, 1, 1, 2, 2, 3, 3};
  m.clock_ghz = 2.7;
  m.instructions_per_cycle = 2.2;
  m.branch_miss_cycles = 17.0;
  m.mlp_dependent = 1.35;
  m.mlp_streaming = 6.0;
  m.l2_lines = 16384;
  m.l2_ns = 5.0;
  m.llc_lines = 270336;
  m.llc_ns = 25.0;
  m.llc_at_home_cluster = true;
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = 0; b < 8; ++b) {
      m.dram_ns.push_back(a == b ? 81.4 : a / 2 == b / 2 ? 89.0 : 131.1);
    }
  }
  m.dram_gb_per_s.assign(8, 46.0);
  m.link_gb_per_s.assign(16, 17.0);
  m.dram_curve = {0.45, 0.103, 12.0};
  m.link_curve = m.dram_curve;
  m.dtlb_pages = 64;
  m.tlb_pages = 1536;
  m.tlb_ns = 3.0;
  m.page_walk_ns = 16.0;
  return m;
}

WorkloadSpec ycsb_a() {
  WorkloadSpec w;
  w.lookup = 0.5;
  w.insert = 0.5;
  w.distribution = Distribution::zipf;
  return w;
}

struct Schedule {
  std::vector<std::int32_t> cores, nodes;
};

Schedule random_schedule(const Machine& machine, std::uint64_t seed) {
  Random random(seed);
  Schedule schedule;
  for (int s = 0; s < slices; ++s) {
    const auto core = static_cast<std::int32_t>(12 * random.below(8) + 3 + random.below(7));
    schedule.cores.push_back(core);
    schedule.nodes.push_back(machine.node_of_core[static_cast<std::size_t>(core)]);
  }
  return schedule;
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Prints the median time of one call of `work` over some rounds of `calls`.
void report(const char* name, int calls, const std::function<void()>& work) {
  constexpr std::size_t rounds = 7;
  std::array<double, rounds> us{};
  for (double& round : us) {
    const double start = cpu_seconds();
    for (int i = 0; i < calls; ++i) work();
    round = (cpu_seconds() - start) * 1e6 / calls;
  }
  std::sort(us.begin(), us.end());
  std::printf("%-32s %9.2f us [%.2f..%.2f]  %9.0f /s\n", name, us[rounds / 2], us.front(),
              us.back(), 1e6 / us[rounds / 2]);
}

void measure(const char* regime, Load::Kind kind) {
  const Machine machine = server();
  Model model(machine, Load{kind, 32, 0.0});
  const BTreeProfiler profiler(ycsb_a(), slices);
  std::uint64_t seed = 0;
  std::printf("%s\n", regime);
  report("new instance", 50,
         [&] { model.set_instance(profiler.profiles(++seed), Interference{}); });
  std::vector<Schedule> schedules;
  for (std::uint64_t i = 0; i < 16; ++i) schedules.push_back(random_schedule(machine, i));
  std::size_t next = 0;
  report("place a schedule", 200, [&] {
    const Schedule& schedule = schedules[next++ % schedules.size()];
    model.place({schedule.cores, schedule.nodes});
  });
  next = 0;
  report("move a slice", 2000, [&] {
    const Schedule& to = schedules[next / slices % schedules.size()];
    const std::size_t s = next++ % slices;
    model.move(static_cast<int>(s), to.cores[s], to.nodes[s]);
  });
  report("place, routed by node", 5,
         [&] { model.place({{}, schedules[0].nodes, Routing::node, DataPlacement::slice}); });
  report("place, routed to any worker", 5,
         [&] { model.place({{}, schedules[0].nodes, Routing::any, DataPlacement::slice}); });
  report("the same, data interleaved", 2,
         [&] { model.place({{}, schedules[0].nodes, Routing::any, DataPlacement::interleaved}); });
}

}  // namespace
}  // namespace pmoss

int main() {
  pmoss::measure("closed", pmoss::Load::Kind::closed);
  pmoss::measure("saturated", pmoss::Load::Kind::saturated);
}
