// Machines with more cores and domains than one or two words have bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "recording/micro_trace.hpp"
#include "simulator/completions.hpp"
#include "simulator/memory_system.hpp"
#include "simulator/server.hpp"
#include "tests/machine/small_machine.hpp"
#include "workload/random.hpp"

namespace pmoss::simulator {
namespace {

// On the four nodes of the small machine, in last-level domains of eight.
Machine machine_of(int cores) {
  Machine m = small_machine();
  m.node_of_core.clear();
  m.llc_of_core.clear();
  for (int core = 0; core < cores; ++core) {
    m.node_of_core.push_back(core * 4 / cores);
    m.llc_of_core.push_back(core / 8);
  }
  m.is_worker.assign(m.node_of_core.size(), 1);
  m.l2_lines = 64;
  m.llc_lines = 256;
  m.complete();
  return m;
}

TEST(ManyCores, AllShareALineUntilOneOfThemWritesIt) {
  constexpr std::uint32_t line = 3;
  MemorySystem memory(machine_of(1024), 1);
  memory.reset(std::vector<std::uint8_t>{0, 1, 2, 3}, {});
  for (std::size_t core = 0; core < 1024; ++core) memory.read(core, line);
  const BitSet sharers = memory.directory().sharers(line);
  for (std::size_t core = 0; core < 1024; ++core) {
    ASSERT_TRUE(memory.l2_holds(core, line) && sharers.holds(core));
  }
  memory.write(1000, line);
  for (std::size_t core = 0; core < 1024; ++core) {
    ASSERT_EQ(memory.l2_holds(core, line), core == 1000);
    ASSERT_EQ(sharers.holds(core), core == 1000);
  }
  EXPECT_EQ(memory.state(line).modified, 125);
  memory.rehome(line, 1);
  EXPECT_TRUE(sharers.empty() && memory.directory().domains(line).empty());
  EXPECT_FALSE(memory.l2_holds(1000, line));
}

// The numbers of idle cores and domains need more words; nothing else is different.
TEST(ManyCores, IdleOnesChangeNothing) {
  const auto trace = recording::modified_lines(500, 4000);
  std::vector<std::int32_t> cores, nodes;
  for (std::uint32_t slice = 0; slice < trace->slices; ++slice) {
    cores.push_back(static_cast<std::int32_t>(slice % 8));
    nodes.push_back(static_cast<std::int32_t>(slice % 8 / 2));
  }
  std::vector<double> throughputs;
  for (const int idle : {0, 100, 1016}) {
    Machine m = small_machine();
    for (int core = 0; core < idle; ++core) {
      m.node_of_core.push_back(3);
      m.llc_of_core.push_back(4 + core / 8);
      m.is_worker.push_back(0);
    }
    Server server(m, Load{Load::Kind::closed, 4, 0.0});
    server.set_instance(trace);
    throughputs.push_back(server.run({cores, nodes}, 1).throughput);
  }
  EXPECT_GT(throughputs[0], 0.0);
  EXPECT_EQ(throughputs[1], throughputs[0]);
  EXPECT_EQ(throughputs[2], throughputs[0]);
}

TEST(ManyCores, MoreThanTheDirectoryHoldsAreRefused) {
  EXPECT_NO_THROW(MemorySystem::check(machine_of(1024)));
  EXPECT_THROW(MemorySystem::check(machine_of(1025)), std::invalid_argument);
  Machine m = machine_of(600);
  for (std::size_t core = 0; core < 600; ++core) m.llc_of_core[core] = static_cast<int>(core / 2);
  EXPECT_THROW(MemorySystem::check(m), std::invalid_argument);
}

TEST(Completions, TheFirstOfTheEarliestIsNext) {
  for (const std::size_t cores : {1, 2, 7, 64, 1000}) {
    Completions completions(cores);
    std::vector<double> times(cores, Completions::never);
    Random random(cores);
    for (int i = 0; i < 5000; ++i) {
      const std::size_t core = random.below(cores);
      times[core] =
          random.below(9) == 0 ? Completions::never : static_cast<double>(random.below(40));
      completions.set(core, times[core]);
      const auto wanted = std::min_element(times.begin(), times.end()) - times.begin();
      ASSERT_EQ(completions.next(), static_cast<std::size_t>(wanted));
      ASSERT_EQ(completions.time(core), times[core]);
    }
  }
}

}  // namespace
}  // namespace pmoss::simulator
