// Co-tenants that come and go while instance and schedule stay.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "analytic/btree_profile.hpp"
#include "analytic/model.hpp"
#include "tests/analytic/small_workload.hpp"
#include "tests/machine/small_machine.hpp"
#include "workload/random.hpp"

namespace pmoss::analytic {
namespace {

constexpr std::size_t slices = 64;

struct Placed {
  std::vector<std::int32_t> cores, nodes;
};

Placed some_schedule(std::uint64_t seed) {
  Random random(seed);
  Placed p;
  for (std::size_t s = 0; s < slices; ++s) {
    p.cores.push_back(static_cast<std::int32_t>(random.below(8)));
    p.nodes.push_back(static_cast<std::int32_t>(random.below(4)));
  }
  return p;
}

/// Co-tenants of every kind, or of fewer kinds: each is there by chance.
Interference some_co_tenants(std::uint64_t seed) {
  Random random(seed);
  const auto share = [&] { return 0.1 * static_cast<double>(random.below(9)); };
  Interference taken;
  if (random.below(2) == 1) {
    taken.busy_share.assign(8, 0.0);
    taken.busy_share[random.below(8)] = share();
  }
  if (random.below(2) == 1) {
    taken.llc_lines_per_ns.assign(4, 0.0);
    taken.llc_lines_per_ns[random.below(4)] = 0.1 * share();
  }
  if (random.below(2) == 1) {
    taken.dram_gb_per_s.assign(4, 0.0);
    taken.dram_gb_per_s[random.below(4)] = 40.0 * share();
  }
  if (random.below(2) == 1) taken.link_gb_per_s = {0.0, 20.0 * share(), 20.0 * share(), 0.0};
  return taken;
}

SliceProfiles profiles(bool sharing) {
  auto made = BTreeProfiler(lookups_and_inserts(5'000'000), slices).profiles(1);
  for (int s = 0; sharing && s < static_cast<int>(slices); ++s) {
    made.shared.push_back({(s + 63) % 64, s, 0.3});
  }
  return made;
}

void expect_the_same(const Snapshot& a, const Snapshot& b) {
  EXPECT_EQ(a.throughput, b.throughput);
  EXPECT_EQ(a.latency_p99_us, b.latency_p99_us);
  EXPECT_EQ(a.read_gb_per_s, b.read_gb_per_s);
  EXPECT_EQ(a.write_gb_per_s, b.write_gb_per_s);
  EXPECT_EQ(a.link_gb_per_s, b.link_gb_per_s);
  for (std::size_t s = 0; s < slices; ++s) {
    EXPECT_EQ(a.slices[s].queries, b.slices[s].queries);
    EXPECT_EQ(a.slices[s].elapsed_us, b.slices[s].elapsed_us);
    EXPECT_EQ(a.slices[s].llc_misses, b.slices[s].llc_misses);
  }
}

class CoTenantsUnderLoad : public ::testing::TestWithParam<Load::Kind> {};

TEST_P(CoTenantsUnderLoad, OtherCoTenantsGiveTheSameBitsAsAModelMadeWithThem) {
  for (const bool sharing : {false, true}) {
    Model model(small_machine(), {GetParam(), 32, 5.0});
    model.set_instance(profiles(sharing), {});
    Placed p = some_schedule(3);
    model.place({p.cores, p.nodes});
    Random random(5);
    for (std::uint64_t step = 0; step < 12; ++step) {
      const Interference taken = some_co_tenants(step);
      const double throughput = model.set_interference(taken);
      Model fresh(small_machine(), {GetParam(), 32, 5.0});
      fresh.set_instance(profiles(sharing), taken);
      ASSERT_EQ(throughput, fresh.place({p.cores, p.nodes}))
          << "sharing " << sharing << ", step " << step;
      expect_the_same(model.snapshot(), fresh.snapshot());
      const std::size_t s = random.below(slices);
      p.cores[s] = static_cast<std::int32_t>(random.below(8));
      p.nodes[s] = static_cast<std::int32_t>(random.below(4));
      const int slice = static_cast<int>(s);
      ASSERT_EQ(model.move(slice, p.cores[s], p.nodes[s]),
                fresh.move(slice, p.cores[s], p.nodes[s]));
    }
  }
}

TEST_P(CoTenantsUnderLoad, TheSameInstanceWithOtherCoTenantsForgetsItsScheduleAndNothingElse) {
  for (const bool sharing : {false, true}) {
    Model model(small_machine(), {GetParam(), 32, 5.0});
    model.set_instance(profiles(sharing), {});
    for (std::uint64_t step = 0; step < 4; ++step) {
      const Interference taken = some_co_tenants(step);
      model.set_co_tenants(taken);
      EXPECT_THROW(model.snapshot(), std::invalid_argument);
      Model fresh(small_machine(), {GetParam(), 32, 5.0});
      fresh.set_instance(profiles(sharing), taken);
      const Placed p = some_schedule(step);
      ASSERT_EQ(model.place({p.cores, p.nodes}), fresh.place({p.cores, p.nodes}));
      ASSERT_EQ(model.move(5, 1, 0), fresh.move(5, 1, 0));
      expect_the_same(model.snapshot(), fresh.snapshot());
    }
  }
}

TEST_P(CoTenantsUnderLoad, ChangingAllAtOnceGivesTheSameBitsAsOneAfterTheOther) {
  for (const bool sharing : {false, true}) {
    Model together(small_machine(), {GetParam(), 32, 5.0});
    Model apart(small_machine(), {GetParam(), 32, 5.0});
    const Placed p = some_schedule(3);
    for (Model* model : {&together, &apart}) {
      model->set_instance(profiles(sharing), {});
      model->place({p.cores, p.nodes});
    }
    Random random(7);
    for (std::uint64_t step = 0; step < 6; ++step) {
      const Interference taken = some_co_tenants(step);
      std::vector<std::int32_t> moved, cores, nodes;
      for (std::int32_t s = 0; s < 64; s += 9) {
        moved.push_back(s);
        cores.push_back(static_cast<std::int32_t>(random.below(8)));
        nodes.push_back(static_cast<std::int32_t>(random.below(4)));
      }
      const double throughput = together.change(taken, {moved, cores, nodes});
      apart.set_interference(taken);
      for (std::size_t i = 0; i < moved.size(); ++i) apart.move(moved[i], cores[i], nodes[i]);
      ASSERT_EQ(throughput, apart.throughput()) << "sharing " << sharing << ", step " << step;
      expect_the_same(together.snapshot(), apart.snapshot());
      const double before = together.throughput();
      cores[1] = 99;
      EXPECT_THROW(together.change({}, {moved, cores, nodes}), std::invalid_argument);
      cores.pop_back();
      EXPECT_THROW(together.change({}, {moved, cores, nodes}), std::invalid_argument);
      EXPECT_EQ(together.throughput(), before);
    }
  }
}

TEST_P(CoTenantsUnderLoad, NinetyNineInAHundredAreAnsweredWithinTheQuantile) {
  Model model(small_machine(), {GetParam(), 32, 5.0});
  model.set_instance(profiles(false), some_co_tenants(2));
  const Placed p = some_schedule(3);
  EXPECT_THROW(model.share_within(1.0), std::invalid_argument);
  model.place({p.cores, p.nodes});
  const Snapshot snapshot = model.snapshot();
  EXPECT_NEAR(model.share_within(snapshot.latency_p99_us), 0.99, 1e-6);
  EXPECT_NEAR(model.share_within(snapshot.latency_p50_us), 0.5, 1e-6);
  EXPECT_NEAR(model.share_within(1e12), 1.0, 1e-12);
  EXPECT_THROW(model.share_within(0.0), std::invalid_argument);
}

/// All workers serve all slices, whose data lie on node 1.
Snapshot shared_by_all(const Load& load, const Interference& taken) {
  Model model(small_machine(), load);
  model.set_instance(profiles(false), taken);
  const std::vector<std::int32_t> cores(slices, 0), nodes(slices, 1);
  model.place({cores, nodes, Routing::any});
  return model.snapshot();
}

TEST_P(CoTenantsUnderLoad, StarvedMemoriesAndLinksGiveLittleMoreThanWhatIsLeft) {
  const Load load{GetParam(), 32, 500.0};
  for (const double left : {0.1, 0.03}) {
    Interference taken;
    taken.dram_gb_per_s = {0.0, 40.0 * (1.0 - left), 0.0, 0.0};
    EXPECT_LT(shared_by_all(load, taken).read_gb_per_s[1], 1.1 * left * 40.0) << left;
    taken = {};
    taken.link_gb_per_s = {0.0, 20.0 * (1.0 - left), 0.0, 0.0};
    EXPECT_LT(shared_by_all(load, taken).link_gb_per_s[1], 1.1 * left * 20.0) << left;
  }
}

TEST(CacheSweeps, TakeAsMuchFromWorkersWithABacklogAsFromOthers) {
  Interference taken;
  taken.llc_lines_per_ns.assign(4, 0.05);
  const auto more_misses = [&](Load::Kind kind) {
    const auto per_query = [&](const Interference& interference) {
      const Snapshot snapshot = shared_by_all({kind, 32, 5.0}, interference);
      double misses = 0.0;
      for (const SliceRates& slice : snapshot.slices) misses += slice.llc_misses;
      return misses / snapshot.throughput;
    };
    return per_query(taken) - per_query({});
  };
  const double closed = more_misses(Load::Kind::closed);
  EXPECT_GT(closed, 0.1);
  EXPECT_NEAR(more_misses(Load::Kind::saturated), closed, 0.15 * closed);
}

INSTANTIATE_TEST_SUITE_P(Loads, CoTenantsUnderLoad,
                         ::testing::Values(Load::Kind::closed, Load::Kind::saturated,
                                           Load::Kind::open));

TEST(OtherCoTenants, AreThereForTheNextScheduleToo) {
  Interference taken;
  taken.llc_lines_per_ns = {0.05, 0.0, 0.0, 0.0};
  taken.dram_gb_per_s = {0.0, 20.0, 0.0, 0.0};
  Model model(small_machine(), {});
  model.set_instance(profiles(false), {});
  EXPECT_EQ(model.set_interference(taken), 0.0);
  Model fresh(small_machine(), {});
  fresh.set_instance(profiles(false), taken);
  const Placed p = some_schedule(4);
  EXPECT_EQ(model.place({p.cores, p.nodes}), fresh.place({p.cores, p.nodes}));
}

TEST(OtherCoTenants, ThatAreImpossibleChangeNothing) {
  Model model(small_machine(), {});
  model.set_instance(profiles(false), {});
  const Placed p = some_schedule(4);
  const double before = model.place({p.cores, p.nodes});
  Interference taken;
  taken.busy_share.assign(8, 1.0);
  EXPECT_THROW(model.set_interference(taken), std::invalid_argument);
  EXPECT_EQ(model.throughput(), before);
  EXPECT_EQ(model.set_interference({}), before);
}

}  // namespace
}  // namespace pmoss::analytic
