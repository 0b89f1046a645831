#include "machine/machine.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>

#include "machine/interference.hpp"
#include "tests/machine/small_machine.hpp"

namespace pmoss {
namespace {

std::string refusal(Machine machine) {
  try {
    machine.complete();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Machine, CountsItsParts) {
  const Machine machine = small_machine();
  EXPECT_EQ(machine.cores(), 8);
  EXPECT_EQ(machine.nodes(), 4);
  EXPECT_EQ(machine.sockets(), 2);
  EXPECT_EQ(machine.llc_domains(), 4);
  EXPECT_EQ(machine.workers(), 8);
  EXPECT_EQ(refusal(machine), "");
}

TEST(Machine, RefusesAMeshThatDoesNotFit) {
  EXPECT_EQ(refusal(small_mesh_machine()), "");
  Machine machine = small_mesh_machine();
  machine.mesh_ns.pop_back();
  EXPECT_NE(refusal(machine).find("length of mesh_ns = 7"), std::string::npos);

  machine = small_mesh_machine();
  machine.mesh_modified_ns.pop_back();
  EXPECT_NE(refusal(machine).find("length of mesh_modified_ns = 63"), std::string::npos);

  machine = small_mesh_machine();
  machine.llc_at_home_cluster = true;
  EXPECT_NE(refusal(machine).find("llc_at_home_cluster = 1"), std::string::npos);

  machine = small_mesh_machine();
  machine.mesh_ns[2] = -20.0;
  EXPECT_NE(refusal(machine).find("llc_ns and mesh_ns = 0"), std::string::npos);

  machine = small_mesh_machine();
  machine.mesh_modified_ns[1] = -31.0;
  EXPECT_NE(refusal(machine).find("mesh_modified_ns = -1"), std::string::npos);
}

TEST(Machine, RefusesImpossibleValuesByName) {
  Machine machine = small_machine();
  machine.clock_ghz = 0.0;
  EXPECT_NE(refusal(machine).find("clock_ghz = 0"), std::string::npos);

  machine = small_machine();
  machine.node_of_core[3] = 9;
  EXPECT_NE(refusal(machine).find("node_of_core = 9"), std::string::npos);

  machine = small_machine();
  machine.dram_ns.pop_back();
  EXPECT_NE(refusal(machine).find("length of dram_ns = 15"), std::string::npos);

  machine = small_machine();
  machine.dram_curve.a = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(refusal(machine).find("dram_curve.a = nan"), std::string::npos);

  machine = small_machine();
  machine.dram_curve.c = 300.0;
  EXPECT_NE(refusal(machine).find("dram_curve.c = 300"), std::string::npos);

  machine = small_machine();
  machine.branch_miss_cycles = -1.0;
  EXPECT_NE(refusal(machine).find("branch_miss_cycles = -1"), std::string::npos);

  machine = small_machine();
  machine.is_worker.assign(8, 0);
  EXPECT_NE(refusal(machine).find("workers = 0"), std::string::npos);
}

TEST(Neighbours, OnADomainWithoutCoresAreRefused) {
  Machine machine = small_machine();
  machine.llc_of_core = {0, 0, 0, 0, 2, 2, 3, 3};
  const Neighbour sweep{Neighbour::Kind::cache_thrash, 1, 0.5};
  EXPECT_THROW(taken_by({sweep}, machine), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss
