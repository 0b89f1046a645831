#include "simulator/memory_system.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/analytic/small_machine.hpp"

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

}  // namespace
}  // namespace pmoss::simulator
