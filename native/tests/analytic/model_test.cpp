#include "analytic/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "analytic/btree_profile.hpp"
#include "analytic/exhaustive.hpp"
#include "tests/analytic/small_model.hpp"
#include "tests/machine/small_machine.hpp"
#include "workload/random.hpp"

namespace pmoss::analytic {
namespace {

/// The slices go to the cores in turn, each with its lines at its core.
Placed in_turn(const Machine& machine) {
  Placed p;
  for (std::size_t s = 0; s < 64; ++s) {
    p.cores.push_back(static_cast<std::int32_t>(s % 8));
    p.nodes.push_back(machine.node_of_core[s % 8]);
  }
  return p;
}

TEST_P(EveryLoad, SliceThroughputsAndNodeTrafficAddUp) {
  const Machine machine = small_machine();
  auto model = model_of(machine, load());
  const Placed p = random_schedule(machine, 64, 5, false);
  const double x = model.place({p.cores, p.nodes});
  const Snapshot snapshot = model.snapshot();
  double queries = 0.0, accesses = 0.0, written = 0.0;
  for (const SliceRates& r : snapshot.slices) {
    queries += r.queries;
    accesses += r.memory_accesses + r.llc_write_misses;
    written += r.llc_write_misses;
  }
  EXPECT_NEAR(queries, x, 1e-9 * x);
  const auto sum = [](const std::vector<double>& v) {
    return std::accumulate(v.begin(), v.end(), 0.0);
  };
  // 64 bytes per access; million lines per second are 64e-3 GB/s.
  EXPECT_NEAR(sum(snapshot.read_gb_per_s), accesses * 64e-3, 1e-9 + 1e-6 * accesses);
  // What is read may go back written: at least where the missing touch writes, at most all of it.
  EXPECT_GE(sum(snapshot.write_gb_per_s), written * 64e-3 * (1.0 - 1e-9));
  EXPECT_LE(sum(snapshot.write_gb_per_s), accesses * 64e-3 * (1.0 + 1e-9));
  EXPECT_GT(snapshot.latency_p99_us, snapshot.latency_p50_us);
}

/// The same machine with a mesh on which nothing is farther than the mean.
Machine levelled(Machine m) {
  m.mesh_ns.assign(8, 0.0);
  m.mesh_modified_ns.assign(64, 0.0);
  return m;
}

/// The same machine without its mesh.
Machine unmeshed(Machine m) {
  m.mesh_ns.clear();
  m.mesh_modified_ns.clear();
  return m;
}

TEST_P(EveryLoad, AMeshOfNoDistanceChangesNothing) {
  const Machine m = small_mesh_machine();
  const SliceProfiles profiles = overlapping(64);
  ReadyModel plain(unmeshed(m), load(), profiles, {}), level(levelled(m), load(), profiles, {});
  const Placed p = random_schedule(m, 64, 5, true);
  for (const Routing routing : {Routing::core, Routing::node, Routing::any}) {
    const Placement placement{p.cores, p.nodes, routing, DataPlacement::slice};
    EXPECT_EQ(plain.place(placement), level.place(placement));
  }
}

TEST_P(EveryLoad, OnAMeshACentralCoreIsFasterThanOneAtTheEdge) {
  Machine m = small_mesh_machine();
  m.l2_lines = 256;  // most touches go to the last level
  auto model = model_of(m, load());
  const auto all_on = [&](std::int32_t core) {
    return model.place({std::vector<std::int32_t>(64, core), std::vector<std::int32_t>(64, 0)});
  };
  EXPECT_GT(all_on(1), 1.01 * all_on(0));
}

TEST_P(EveryLoad, OnAMeshFarOwnersOfSharedLinesCostMore) {
  const Machine m = small_mesh_machine();
  ReadyModel model(m, load(), overlapping(64), {});
  ReadyModel plain(unmeshed(m), load(), overlapping(64), {});
  // Each slice shares lines with the next one, which the other core serves. Both pairs of cores
  // have one at the edge and one in the middle.
  const auto between = [&](Model& tested, std::int32_t even, std::int32_t odd) {
    std::vector<std::int32_t> cores, nodes(64, 0);
    for (int s = 0; s < 64; ++s) cores.push_back(s % 2 == 0 ? even : odd);
    return tested.place({cores, nodes});
  };
  EXPECT_GT(between(model, 0, 1), between(model, 0, 2));
  EXPECT_EQ(between(plain, 0, 1), between(plain, 0, 1));
}

TEST_P(EveryLoad, OnAMeshSharedQueuesHaveTheMeanDistance) {
  Machine m = small_mesh_machine();
  // As if every core were as far from every other: queries go to any of them.
  Machine mean = m;
  mean.mesh_ns.assign(8, 0.0);
  for (std::size_t reader = 0; reader < 8; ++reader) {
    for (std::size_t owner = 0; owner < 8; ++owner) {
      // Of the pairs of four stops in a row the mean is 20 / 12 hops.
      mean.mesh_modified_ns[reader * 8 + owner] =
          reader / 4 == owner / 4 ? 4.0 * 20.0 / 12.0 - 6.0 : 0.0;
    }
  }
  auto model = model_of(m, load()), of_mean = model_of(mean, load());
  const Placed p = in_turn(m);
  const Placement placement{p.cores, p.nodes, Routing::any, DataPlacement::slice};
  const double x = model.place(placement);
  EXPECT_NEAR(x, of_mean.place(placement), 1e-9 * x);
}

TEST_P(EveryLoad, NamingIdenticalNodesOtherwiseChangesNothing) {
  const Machine machine = small_machine();
  auto model = model_of(machine, load());
  const Placed p = random_schedule(machine, 64, 6, true);
  const double x = model.place({p.cores, p.nodes});
  Placed q = p;
  for (auto& core : q.cores) core = 7 - core;
  for (auto& node : q.nodes) node = 3 - node;
  EXPECT_NEAR(model.place({q.cores, q.nodes}), x, 1e-9 * x);
}

TEST_P(EveryLoad, MoreBandwidthOrLessLatencyNeverHurts) {
  const Machine machine = small_machine();
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Placed p = random_schedule(machine, 64, seed, false);
    const double x = model_of(machine, load()).place({p.cores, p.nodes});
    Machine better = machine;
    for (auto& bandwidth : better.dram_gb_per_s) bandwidth *= 2.0;
    EXPECT_GE(model_of(better, load()).place({p.cores, p.nodes}), x * (1.0 - 1e-9));
    better = machine;
    for (auto& bandwidth : better.link_gb_per_s) bandwidth *= 2.0;
    EXPECT_GE(model_of(better, load()).place({p.cores, p.nodes}), x * (1.0 - 1e-9));
    better = machine;
    for (auto& latency : better.dram_ns) latency *= 0.5;
    EXPECT_GE(model_of(better, load()).place({p.cores, p.nodes}), x * (1.0 - 1e-9));
  }
}

TEST_P(EveryLoad, MarginalIsEveryMoveAndLeavesTheScheduleAlone) {
  Machine machine = small_machine();
  machine.is_worker[5] = 0;
  auto model = model_of(machine, load());
  std::vector<std::int32_t> cores(64, 0), nodes(64, 0);
  for (std::size_t s = 0; s < 64; ++s) {
    cores[s] = static_cast<std::int32_t>(s % 5);
    nodes[s] = machine.node_of_core[static_cast<std::size_t>(cores[s])];
  }
  const double x = model.place({cores, nodes});
  const std::vector<double> marginal = model.marginal(7);
  EXPECT_EQ(model.throughput(), x);
  EXPECT_TRUE(std::isnan(marginal[5]));
  EXPECT_EQ(marginal[static_cast<std::size_t>(cores[7])], x);
  EXPECT_EQ(marginal[6], model.move(7, 6, 3));
}

TEST_P(EveryLoad, TheContentionFixedPointIsReachedWhateverTheTraffic) {
  // Little bandwidth and remote data make the plain iteration swing between two values.
  Machine narrow = small_machine();
  for (auto& bandwidth : narrow.dram_gb_per_s) bandwidth = 3.0;
  for (auto& bandwidth : narrow.link_gb_per_s) bandwidth = 1.5;
  auto model = model_of(narrow, load());
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Placed p = random_schedule(narrow, 64, seed, false);
    if (seed % 2 == 1) std::fill(p.nodes.begin(), p.nodes.end(), 0);
    const double x = model.place({p.cores, p.nodes});
    ASSERT_LT(model.contention_steps(), Model::contention_limit) << "seed " << seed;
    // A fixed point: nothing is served beyond what memory delivers at the steep end of its curve.
    const Snapshot snapshot = model.snapshot();
    for (std::size_t node = 0; node < 4; ++node) {
      EXPECT_LT(snapshot.read_gb_per_s[node] + snapshot.write_gb_per_s[node], 3.0 * 1.7);
    }
    ASSERT_GT(x, 0.0);
  }
}

TEST_P(EveryLoad, SlicesThatNobodyAsksForCostNothing) {
  WorkloadSpec few = workload();
  few.lookup = 1.0;
  few.insert = 0.0;
  few.theta = 3.0;
  few.zipf_items = 20;  // most of 64 slices hold none of the 20 keys that are ever read
  const Machine machine = small_machine();
  const SliceProfiles profiles = BTreeProfiler(few, 64).profiles(1);
  EXPECT_NEAR(std::accumulate(profiles.share.begin(), profiles.share.end(), 0.0), 1.0, 1e-12);
  EXPECT_GT(std::count(profiles.share.begin(), profiles.share.end(), 0.0), 40);
  ReadyModel model(machine, load(), profiles, {});
  const Placed p = random_schedule(machine, 64, 1, true);
  const double x = model.place({p.cores, p.nodes});
  EXPECT_TRUE(std::isfinite(x));
  EXPECT_GT(x, 0.0);
  double queries = 0.0;
  for (const SliceRates& r : model.snapshot().slices) {
    ASSERT_TRUE(std::isfinite(r.cycles) && std::isfinite(r.elapsed_us));
    queries += r.queries;
  }
  EXPECT_NEAR(queries, x, 1e-9 * x);
}

TEST(Model, PutsDataNearItsCore) {
  const Machine machine = small_machine();
  auto model = model_of(machine, Load{});
  Placed p = random_schedule(machine, 64, 1, true);
  const double local = model.place({p.cores, p.nodes});
  for (auto& node : p.nodes) node = (node + 2) % 4;
  EXPECT_LT(model.place({p.cores, p.nodes}), local);
}

TEST(Model, UpdatesAreWrittenBack) {
  WorkloadSpec updates;
  updates.lookup = 0.5;
  updates.update = 0.5;
  updates.records = 5'000'000;
  ReadyModel model(small_machine(), Load{}, BTreeProfiler(updates, 64).profiles(1), {});
  const Placed p = random_schedule(small_machine(), 64, 1, true);
  model.place({p.cores, p.nodes});
  const Snapshot snapshot = model.snapshot();
  EXPECT_GT(snapshot.write_gb_per_s[0], 0.05 * snapshot.read_gb_per_s[0]);
  EXPECT_LT(snapshot.write_gb_per_s[0], snapshot.read_gb_per_s[0]);
}

TEST(Model, WrittenLinesLeaveAgainstTheDirectionOfReads) {
  // Cores of socket 0, data on socket 1: what they read is slowed by the link from 1 to 0 alone.
  const Machine machine = small_machine();
  const std::vector<std::int32_t> cores(64, 0), nodes(64, 3);
  const auto throughput = [&](double from_memory, double to_memory) {
    Machine m = machine;
    m.link_gb_per_s = {20.0, to_memory, from_memory, 20.0};
    return model_of(m, Load{}).place({cores, nodes});
  };
  const double x = throughput(20.0, 20.0);
  EXPECT_LT(throughput(0.3, 20.0), 0.9 * x);
  EXPECT_GT(throughput(20.0, 0.3), 0.99 * x);
}

TEST(Model, AnOpenLoadBelowCapacityIsServedWhole) {
  const Machine machine = small_machine();
  const Placed p = random_schedule(machine, 64, 1, true);
  const double closed = model_of(machine, Load{}).place({p.cores, p.nodes});
  auto open = model_of(machine, Load{Load::Kind::open, 32, 0.5 * closed});
  EXPECT_NEAR(open.place({p.cores, p.nodes}), 0.5 * closed, 1e-9);
  auto flooded = model_of(machine, Load{Load::Kind::open, 32, 10.0 * closed});
  EXPECT_NEAR(flooded.place({p.cores, p.nodes}), closed, 1e-6 * closed);
}

TEST(Model, ABusyCoTenantShowsInTimeButNotInEvents) {
  const Machine machine = small_machine();
  Interference busy;
  busy.busy_share = {0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0};
  auto quiet = model_of(machine, Load{});
  auto shared = model_of(machine, Load{}, 64, busy);
  const Placed p = in_turn(machine);
  EXPECT_LT(shared.place({p.cores, p.nodes}), quiet.place({p.cores, p.nodes}));
  for (const auto& [s, slowdown] : {std::pair<std::size_t, double>{2, 2.0}, {3, 1.0}}) {
    const SliceRates r = shared.snapshot().slices[s];
    EXPECT_NEAR(r.elapsed_us / r.task_clock_us, slowdown, 1e-12);
    EXPECT_EQ(r.context_switches > 0.0, slowdown > 1.0);
    const SliceRates q = quiet.snapshot().slices[s];
    EXPECT_NEAR(r.instructions / r.queries, q.instructions / q.queries, 1e-9);
  }
}

TEST(Model, DramLatencyIsThatOfTheMachineWhenNothingContends) {
  // One slice whose lines all miss every cache, at next to no load: its stall time per query is
  // its dependent misses times the idle latency.
  Machine machine = small_machine();
  machine.l2_lines = 1;
  machine.llc_lines = 1;
  WorkloadSpec lookups;
  lookups.records = 20'000'000;
  for (const int node : {0, 3}) {
    ReadyModel model(machine, Load{Load::Kind::open, 32, 1e-6},
                     BTreeProfiler(lookups, 1).profiles(1), {});
    model.place({std::vector<std::int32_t>{0}, std::vector<std::int32_t>{node}});
    const SliceRates r = model.snapshot().slices[0];
    const double stall_ns = r.cycles_l3_miss / r.queries / machine.clock_ghz;
    // A node's version, then its key, in each of 4 levels; two lines of samples and the word are
    // fetched beside them, four at a time.
    const double misses = 4.0 * (2.0 + 3.0 / 4.0);
    EXPECT_NEAR(stall_ns / (misses * (node == 0 ? 80.0 : 150.0)), 1.0, 0.03);
  }
}

TEST_P(EveryLoad, ACoTenantNeverHelps) {
  Machine machine = small_machine();
  machine.smt_share = 0.6;
  const auto throughput = [&](const Interference& interference, std::uint64_t seed) {
    const Placed p = random_schedule(machine, 64, seed, false);
    return model_of(machine, load(), 64, interference).place({p.cores, p.nodes});
  };
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const double x = throughput({}, seed);
    EXPECT_EQ(throughput(quiet(), seed), x);
    for (const auto taken : {&Interference::busy_share, &Interference::sibling_busy_share,
                             &Interference::llc_lines_per_ns, &Interference::dram_gb_per_s,
                             &Interference::link_gb_per_s}) {
      Interference interference = quiet();
      (interference.*taken)[1] = 0.3;
      const double disturbed = throughput(interference, seed);
      EXPECT_LE(disturbed, x * (1.0 + 1e-9));
      (interference.*taken)[1] = 0.9;
      EXPECT_LE(throughput(interference, seed), disturbed * (1.0 + 1e-9));
    }
  }
}

TEST_P(EveryLoad, SlicesThatShareLinesWantOneCore) {
  // Neighbouring slices together, against the same number of slices per core dealt out in turn.
  const Machine m = small_machine();
  SliceProfiles profiles = overlapping(64);
  std::fill(profiles.share.begin(), profiles.share.end(), 1.0 / 64);
  ReadyModel model(m, load(), profiles, {});
  std::vector<std::int32_t> together(64), apart(64), together_nodes(64), apart_nodes(64);
  for (std::size_t s = 0; s < 64; ++s) {
    together[s] = static_cast<std::int32_t>(s / 8);
    apart[s] = static_cast<std::int32_t>(s % 8);
    together_nodes[s] = together[s] / 2;
    apart_nodes[s] = apart[s] / 2;
  }
  const double x = model.place({together, together_nodes});
  // An open load is served whole either way.
  const double gain = load().kind == Load::Kind::open ? 0.999 : 1.02;
  EXPECT_GT(x, gain * model.place({apart, apart_nodes}));
}

TEST_P(EveryLoad, RoutingToAnyWorkerIgnoresTheCores) {
  const Machine m = small_machine();
  auto model = model_of(m, load());
  const Placed p = random_schedule(m, 64, 3, true);
  const Placed q = random_schedule(m, 64, 4, true);
  const double x = model.place({p.cores, p.nodes, Routing::any});
  EXPECT_EQ(model.place({q.cores, p.nodes, Routing::any}), x);
  EXPECT_EQ(model.place({{}, p.nodes, Routing::any}), x);
  EXPECT_EQ(model.place({{}, p.nodes, Routing::any, DataPlacement::interleaved}),
            model.place({{}, q.nodes, Routing::any, DataPlacement::interleaved}));
  // And back again, with the bits of a model that never did anything else.
  EXPECT_EQ(model.place({p.cores, p.nodes}), model_of(m, load()).place({p.cores, p.nodes}));
}

TEST_P(EveryLoad, OneWorkerServesAllRoutingsAlike) {
  Machine m = small_machine();
  std::fill(m.is_worker.begin(), m.is_worker.end(), std::uint8_t{0});
  m.is_worker[3] = 1;
  auto model = model_of(m, load());
  const std::vector<std::int32_t> cores(64, 3), nodes(64, 1);
  const double x = model.place({cores, nodes});
  // Only the first is looked up in the tables of SliceTables, which are interpolated.
  EXPECT_NEAR(model.place({{}, nodes, Routing::node}), x, 1e-5 * x);
  EXPECT_NEAR(model.place({{}, nodes, Routing::any}), x, 1e-5 * x);
}

TEST_P(EveryLoad, NumaBalancingMovesPagesOfFirstTouchOnly) {
  const Machine machine = small_machine();
  auto still = model_of(machine, load());
  auto balanced = model_of(machine, load(), 64, {}, {.numa_balancing = true});
  const Placed p = random_schedule(machine, 64, 4, true);
  const auto bound = Placement{p.cores, p.nodes};
  EXPECT_EQ(balanced.place(bound), still.place(bound));
  const Placement loader{p.cores, p.nodes, Routing::core, DataPlacement::loader};
  still.place(loader);
  balanced.place(loader);
  const Snapshot before = still.snapshot(), after = balanced.snapshot();
  EXPECT_EQ(before.read_gb_per_s[3], 0.0);
  EXPECT_GT(after.read_gb_per_s[3], 0.0);
  const auto at_node_0 = [](const Snapshot& s) {
    return s.read_gb_per_s[0] /
           std::accumulate(s.read_gb_per_s.begin(), s.read_gb_per_s.end(), 0.0);
  };
  EXPECT_EQ(at_node_0(before), 1.0);
  EXPECT_LT(at_node_0(after), 0.7);
}

TEST_P(EveryLoad, SharedSnapshotsAddUp) {
  const Machine m = small_machine();
  auto model = model_of(m, load());
  const Placed p = random_schedule(m, 64, 3, true);
  for (const Routing routing : {Routing::node, Routing::any}) {
    for (const DataPlacement data :
         {DataPlacement::slice, DataPlacement::interleaved, DataPlacement::loader}) {
      const double x = model.place({{}, p.nodes, routing, data});
      const Snapshot snapshot = model.snapshot();
      double queries = 0.0;
      for (const SliceRates& r : snapshot.slices) {
        ASSERT_TRUE(std::isfinite(r.cycles) && r.cycles > 0.0);
        queries += r.queries;
      }
      EXPECT_NEAR(queries, x, 1e-9 * x);
      for (std::size_t node = 1; node < 4; ++node) {
        const bool used = snapshot.read_gb_per_s[node] > 0.0;
        EXPECT_EQ(used, data != DataPlacement::loader) << node;
      }
    }
  }
}

TEST(Model, SharingWorkersLosesThePrivateCaches) {
  // The paper's gap between shared everything and shared nothing.
  const Machine m = small_machine();
  auto model = model_of(m, Load{Load::Kind::saturated, 32, 0.0});
  Placed p;
  for (int s = 0; s < 64; ++s) {
    p.cores.push_back(s / 8);
    p.nodes.push_back(s / 16);
  }
  const double by_core = model.place({p.cores, p.nodes});
  const double by_node = model.place({{}, p.nodes, Routing::node});
  const double by_any = model.place({{}, p.nodes, Routing::any});
  EXPECT_GT(by_core, by_node);
  EXPECT_GT(by_node, by_any);
}

TEST(Model, WritersElsewhereCostMoreThanReaders) {
  // With the same touches, lines that others write have to be fetched from them.
  const Machine m = small_machine();
  SliceProfiles reads = BTreeProfiler(workload(), 16).profiles(1);
  std::fill(reads.dirty_share.begin(), reads.dirty_share.end(), 0.0);
  const SliceProfiles writes = BTreeProfiler(workload(), 16).profiles(1);
  const std::vector<std::int32_t> nodes(16, 0);
  Machine far = m;
  far.modified_ns.assign(16, 500.0);
  const auto throughput = [&](const Machine& machine, const SliceProfiles& profiles) {
    return ReadyModel(machine, Load{}, profiles, {}).place({{}, nodes, Routing::any});
  };
  EXPECT_LT(throughput(m, writes), throughput(m, reads));
  EXPECT_LT(throughput(far, writes), throughput(m, writes));
  EXPECT_EQ(throughput(far, reads), throughput(m, reads));
}

TEST(Model, SiblingsShareACoreAndItsCache) {
  Machine m = small_machine();
  m.smt_share = 0.6;
  auto [cores, nodes] = in_turn(m);
  const Load saturated{Load::Kind::saturated, 32, 0.0};
  const double apart = model_of(m, saturated).place({cores, nodes});
  m.physical_of_core = {0, 0, 1, 1, 2, 2, 3, 3};
  const double threads = model_of(m, saturated).place({cores, nodes});
  EXPECT_LT(threads, 0.62 * apart);
  EXPECT_GT(threads, 0.45 * apart);
  // With one thread of each core in use, the other costs nothing.
  for (std::size_t s = 0; s < 64; ++s) cores[s] = static_cast<std::int32_t>(2 * (s % 4));
  for (std::size_t s = 0; s < 64; ++s) nodes[s] = static_cast<std::int32_t>(s % 4);
  Machine whole = small_machine();
  EXPECT_EQ(model_of(m, saturated).place({cores, nodes}),
            model_of(whole, saturated).place({cores, nodes}));
}

TEST(Model, RoutersLimitWhatAllWorkersServe) {
  Machine m = small_machine();
  m.dispatch_ns = 2000.0;
  m.routers = 4;
  const Placed p = random_schedule(m, 64, 3, true);
  for (const auto kind : {Load::Kind::closed, Load::Kind::saturated}) {
    const double ideal = model_of(m, Load{kind, 32, 0.0}).place({p.cores, p.nodes});
    const double dispatched =
        model_of(m, Load{kind, 32, 0.0}, 64, {}, {.dispatched = true}).place({p.cores, p.nodes});
    EXPECT_LT(dispatched, ideal);
    EXPECT_NEAR(dispatched, 4.0 / 2.0, 0.03);
  }
}

TEST(Model, FarSocketsUseEveryLinkOnTheWay) {
  Machine m = small_machine();
  m.socket_of_node = {0, 1, 2, 2};
  m.dram_ns.assign(16, 100.0);
  m.link_gb_per_s = {0.0, 20.0, 0.0, 20.0, 0.0, 20.0, 0.0, 20.0, 0.0};
  m.next_socket = {0, 1, 1, 0, 1, 2, 1, 1, 2};
  auto model = model_of(m, Load{});
  model.place({std::vector<std::int32_t>(64, 0), std::vector<std::int32_t>(64, 3)});
  const Snapshot snapshot = model.snapshot();
  EXPECT_GT(snapshot.link_gb_per_s[2 * 3 + 1], 0.0);
  EXPECT_EQ(snapshot.link_gb_per_s[2 * 3 + 1], snapshot.link_gb_per_s[1 * 3 + 0]);
  EXPECT_EQ(snapshot.link_gb_per_s[2 * 3 + 0], 0.0);
}

TEST(Model, RefusesImpossibleCoTenantsAndRoutings) {
  Machine m = small_machine();
  m.is_worker[6] = m.is_worker[7] = 0;
  auto model = model_of(m, Load{}, 4);
  EXPECT_THROW(model.place({{}, std::vector<std::int32_t>(4, 3), Routing::node}),
               std::invalid_argument);
  for (const auto data : {DataPlacement::first_touch, DataPlacement::keep}) {
    EXPECT_THROW(model.place({{}, std::vector<std::int32_t>(4, 0), Routing::any, data}),
                 std::invalid_argument);
  }
  Interference wrong = quiet();
  wrong.busy_share[0] = 1.0;
  EXPECT_THROW(model_of(m, Load{}, 4, wrong), std::invalid_argument);
  wrong = quiet();
  wrong.dram_gb_per_s.assign(3, 0.0);
  EXPECT_THROW(model_of(m, Load{}, 4, wrong), std::invalid_argument);
  wrong = quiet();
  wrong.llc_lines_per_ns[0] = -1.0;
  EXPECT_THROW(model_of(m, Load{}, 4, wrong), std::invalid_argument);
}

TEST(Model, RefusesWhatTheMachineCannotRun) {
  Machine machine = small_machine();
  machine.is_worker[1] = 0;
  auto model = model_of(machine, Load{}, 4);
  const std::vector<std::int32_t> nodes(4, 0);
  EXPECT_THROW(model.place({std::vector<std::int32_t>(3, 0), nodes}), std::invalid_argument);
  EXPECT_THROW(model.place({std::vector<std::int32_t>(4, 1), nodes}), std::invalid_argument);
  EXPECT_THROW(model.place({std::vector<std::int32_t>(4, 8), nodes}), std::invalid_argument);
  EXPECT_THROW(model.move(0, 0, 0), std::invalid_argument);
  model.place({std::vector<std::int32_t>(4, 0), nodes});
  EXPECT_THROW(model.move(4, 0, 0), std::invalid_argument);
  EXPECT_THROW(model.move(0, 0, 4), std::invalid_argument);
  EXPECT_THROW(model.marginal(-1), std::invalid_argument);
  EXPECT_THROW(Model(machine, Load{Load::Kind::open, 32, 0.0}), std::invalid_argument);
  EXPECT_THROW(model.set_instance(BTreeProfiler(workload(), 4).profiles(0),
                                  Interference{{0.5}, {}, {}, {}, {}}),
               std::invalid_argument);
}

TEST(Exhaustive, FindsWhatBruteForceFinds) {
  const Machine machine = small_machine();
  auto model = model_of(machine, Load{}, 4);
  const Optimum best = best_by_enumeration(model, 5000);
  EXPECT_EQ(best.evaluated, 4096u);
  double highest = 0.0;
  std::vector<std::int32_t> cores(4), nodes(4);
  for (int code = 0; code < 4096; ++code) {
    for (std::size_t s = 0; s < 4; ++s) {
      cores[s] = (code >> (3 * s)) & 7;
      nodes[s] = machine.node_of_core[static_cast<std::size_t>(cores[s])];
    }
    highest = std::max(highest, model.place({cores, nodes}));
  }
  EXPECT_EQ(best.throughput, highest);
  EXPECT_THROW(best_by_enumeration(model, 4095), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Loads, EveryLoad,
                         ::testing::Values(Load::Kind::closed, Load::Kind::saturated,
                                           Load::Kind::open));

}  // namespace
}  // namespace pmoss::analytic
