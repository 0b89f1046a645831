#include "simulator/memory_system.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/machine/small_machine.hpp"
#include "workload/random.hpp"

namespace pmoss::simulator {
namespace {

using By = Served::By;

// Two cores on each of four nodes, two sockets; every node is a last-level domain.
Machine machine() {
  Machine m = small_machine();
  m.l2_ns = 5.0;
  m.l2_lines = 256;
  m.llc_lines = 256;
  m.modified_ns.assign(16, 60.0);
  m.modified_home_reader_ns = 30.0;
  m.complete();
  return m;
}

// Lines 0 to 3 lie in the memory of the node of their number.
MemorySystem memory_of(const Machine& m) {
  MemorySystem memory(m, 1);
  memory.reset(std::vector<std::uint8_t>{0, 1, 2, 3}, {});
  return memory;
}

TEST(MemorySystem, AnInclusiveDomainTakesItsLinesFromTheL2s) {
  Machine m = machine();
  for (const bool inclusive : {false, true}) {
    m.llc_inclusive = inclusive;
    MemorySystem memory = memory_of(m);
    EXPECT_EQ(memory.read(0, 0).by, By::memory);
    EXPECT_EQ(memory.read(0, 0).by, By::l2);
    memory.write(0, 1);
    memory.pollute(0, 10'000);
    EXPECT_EQ(memory.contention().traffic().written[1], inclusive ? 1U : 0U);
    EXPECT_EQ(memory.read(0, 0).by, inclusive ? By::memory : By::l2);
    EXPECT_EQ(memory.read(0, 1).by, inclusive ? By::memory : By::l2);
  }
}

TEST(MemorySystem, ReadingAModifiedLineWritesItBackAndWritingTakesItOver) {
  MemorySystem memory = memory_of(machine());
  memory.write(0, 0);
  const Served read = memory.read(4, 0);  // of the other socket
  EXPECT_EQ(read.by, By::modified_elsewhere);
  EXPECT_EQ(read.ns, 55.0);
  EXPECT_EQ(memory.contention().traffic().written[0], 1U);
  EXPECT_EQ(memory.read(6, 0).by, By::memory);
  // Taking the line from two other L2s waits for the slowest.
  EXPECT_EQ(memory.write(0, 0).ns, 55.0);
  EXPECT_EQ(memory.read(4, 0).by, By::modified_elsewhere);
}

TEST(MemorySystem, AModifiedLineOfTheReadersSocketCostsItsHomesAnswerToo) {
  MemorySystem memory = memory_of(machine());
  memory.write(4, 0);
  EXPECT_EQ(memory.read(0, 0).ns, 85.0);
  memory.write(2, 0);
  EXPECT_EQ(memory.read(0, 0).ns, 55.0);  // the owner is on the socket of the home too
}

// As machine(), on a mesh: cores 0 to 3 share a last level.
Machine mesh_machine(bool inclusive) {
  Machine m = small_mesh_machine();
  m.llc_inclusive = inclusive;
  m.l2_ns = 5.0;
  m.l2_lines = 256;
  m.llc_lines = 256;
  m.complete();
  return m;
}

TEST(MemorySystem, OnAMeshTheNearestOwnerHandsALineOver) {
  for (const bool inclusive : {false, true}) {
    MemorySystem memory = memory_of(mesh_machine(inclusive));
    memory.write(0, 0);
    const Served far = memory.read(3, 0);
    EXPECT_EQ(far.by, By::domain);
    EXPECT_EQ(far.ns, 30.0 + 4.0 * 3 - 6.0 - 5.0);
    memory.write(0, 0);
    EXPECT_EQ(memory.read(1, 0).ns, 30.0 + 4.0 - 6.0 - 5.0);
    // Cores 0 and 1 hold it now; an inclusive last level has what was handed over.
    EXPECT_EQ(memory.read(2, 0).ns, inclusive ? 20.0 - 4.0 - 5.0 : 30.0 + 4.0 - 6.0 - 5.0);
  }
}

TEST(MemorySystem, OnAMeshACoresPlaceCountsForTheLastLevelAndForMemory) {
  MemorySystem memory = memory_of(mesh_machine(true));
  EXPECT_EQ(memory.read(0, 0).ns, 4.0 - 5.0);
  EXPECT_EQ(memory.read(1, 1).ns, -4.0 - 5.0);
  EXPECT_EQ(memory.read(2, 0).ns, 20.0 - 4.0 - 5.0);
  EXPECT_EQ(memory.read(3, 1).ns, 20.0 + 4.0 - 5.0);
  // A writer waits until its last level has informed the others.
  EXPECT_EQ(memory.write(0, 0).ns, 20.0 + 4.0 - 5.0);
  // Between two domains there is no mesh.
  EXPECT_EQ(memory.read(4, 0).ns, 150.0 - 5.0);
}

TEST(MemorySystem, AHomeClusterCachesTheLinesOfItsMemoryForTheWholeSocket) {
  Machine m = machine();
  for (const bool at_home : {false, true}) {
    m.llc_at_home_cluster = at_home;
    MemorySystem memory = memory_of(m);
    memory.read(0, 0);
    EXPECT_EQ(memory.read(2, 0).by, at_home ? By::domain : By::memory);
    EXPECT_EQ(memory.read(4, 0).by, By::memory);  // on the other socket
    memory.read(0, 3);
    EXPECT_EQ(memory.read(2, 3).by, By::memory);  // of the other socket
  }
}

TEST(MemorySystem, TheL2ThatModifiedALineHandsItOverOnce) {
  Machine m = machine();
  m.llc_of_core.assign(8, 0);
  m.modified_ns.assign(1, 60.0);
  for (const bool inclusive : {false, true}) {
    m.llc_inclusive = inclusive;
    MemorySystem memory = memory_of(m);
    memory.write(0, 0);
    EXPECT_EQ(memory.read(0, 0).ns, 0.0);
    const Served handed = memory.read(1, 0);
    EXPECT_EQ(handed.by, By::domain);
    EXPECT_EQ(handed.ns, 55.0);
    EXPECT_EQ(memory.write(1, 0).ns, 15.0) << "asks for core 0's copy back";
    EXPECT_EQ(memory.write(0, 0).ns, 55.0);
    EXPECT_EQ(memory.contention().traffic().written[0], 0U);
  }
  // What the writer's L2 has evicted is the domain's own.
  m.llc_inclusive = true;
  m.l2_lines = 1;
  MemorySystem memory = memory_of(m);
  memory.write(0, 0);
  memory.read(0, 1);
  EXPECT_EQ(memory.read(1, 0).ns, 15.0);
}

// Every touch is served by the nearest cache that has the line. The directory agrees with the
// caches. A modified line is in its domain alone, and is written back once.
TEST(MemorySystem, KeepsItsBooksUnderRandomTouches) {
  constexpr std::uint32_t lines = 96;
  constexpr std::size_t cores = 8;
  std::vector<std::uint8_t> homes(lines);
  for (std::uint32_t line = 0; line < lines; ++line) homes[line] = line % 4;
  for (const bool inclusive : {false, true}) {
    for (const bool at_home : {false, true}) {
      Machine m = machine();
      m.l2_lines = 12;
      m.l2_ways = 4;
      m.llc_lines = 24;
      m.llc_ways = 8;
      m.llc_inclusive = inclusive;
      m.llc_at_home_cluster = at_home;
      MemorySystem memory(m, 1);
      memory.reset(homes, {});
      const auto domain_of = [&](std::size_t core, std::uint32_t line) {
        return static_cast<std::size_t>(m.llc_of(static_cast<int>(core), homes[line]));
      };
      Random random(1);
      std::uint64_t read = 0, modified = 0;
      for (int i = 0; i < 4'000; ++i) {
        if (random.below(50) == 0) memory.pollute(random.below(4), 1 + random.below(8));
        const std::size_t core = random.below(cores);
        // Hot lines are shared by all, the others pass through.
        const auto line = static_cast<std::uint32_t>(random.below(random.below(2) ? 8 : lines));
        const std::size_t domain = domain_of(core, line);
        bool in_domain = memory.domain_holds(domain, line);
        for (std::size_t other = 0; other < cores; ++other) {
          in_domain =
              in_domain || (domain_of(other, line) == domain && memory.l2_holds(other, line));
        }
        const bool was_modified = memory.state(line).modified >= 0;
        const By expected = memory.l2_holds(core, line) ? By::l2
                            : in_domain                 ? By::domain
                            : was_modified              ? By::modified_elsewhere
                                                        : By::memory;
        const bool writes = random.below(3) == 0;
        const Served served = writes ? memory.write(core, line) : memory.read(core, line);
        ASSERT_EQ(served.by, expected) << i;
        read += served.by == By::memory ? 1 : 0;
        modified += writes && !was_modified ? 1 : 0;
        ASSERT_TRUE(memory.l2_holds(core, line));
        if (writes) {
          ASSERT_EQ(memory.state(line).modified, static_cast<int>(domain));
        }
        if (!inclusive && (writes || expected != By::l2)) {
          ASSERT_FALSE(memory.domain_holds(domain, line)) << "moved to the L2";
        }

        std::uint64_t still_modified = 0, written = 0;
        for (std::uint32_t l = 0; l < lines; ++l) {
          const LineState& state = memory.state(l);
          still_modified += state.modified >= 0 ? 1 : 0;
          bool owner_holds = false;
          for (std::size_t c = 0; c < cores; ++c) {
            const bool holds = memory.l2_holds(c, l);
            ASSERT_EQ(holds, memory.directory().sharers(l).holds(c));
            if (!holds) continue;
            ASSERT_TRUE(!inclusive || memory.domain_holds(domain_of(c, l), l));
            ASSERT_TRUE(state.modified < 0 ||
                        domain_of(c, l) == static_cast<std::size_t>(state.modified));
            owner_holds = true;
          }
          for (std::size_t d = 0; d < 4; ++d) {
            const bool holds = memory.domain_holds(d, l);
            ASSERT_EQ(holds, memory.directory().domains(l).holds(d));
            if (!holds) continue;
            ASSERT_TRUE(state.modified < 0 || d == static_cast<std::size_t>(state.modified));
            owner_holds = true;
          }
          ASSERT_TRUE(state.modified < 0 || owner_holds);
        }
        const Traffic& traffic = memory.contention().traffic();
        std::uint64_t traffic_read = 0;
        for (std::size_t node = 0; node < 4; ++node) {
          traffic_read += traffic.read[node];
          written += traffic.written[node];
        }
        ASSERT_EQ(traffic_read, read);
        ASSERT_EQ(written + still_modified, modified);
      }
    }
  }
}

}  // namespace
}  // namespace pmoss::simulator
