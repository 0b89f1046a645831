#include "threads/server.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/machine/small_machine.hpp"

namespace pmoss::threads {
namespace {

// Two sockets of 8 hardware threads on 4 cores, and slow memory on each: nodes 2 and 3.
Machine machine() {
  Machine machine = small_machine();
  machine.node_of_core.assign(16, 0);
  machine.llc_of_core.assign(16, 0);
  machine.physical_of_core.assign(16, 0);
  for (int cpu = 0; cpu < 16; ++cpu) {
    const auto i = static_cast<std::size_t>(cpu);
    machine.node_of_core[i] = machine.llc_of_core[i] = cpu / 8;
    machine.physical_of_core[i] = cpu / 8 * 4 + cpu % 4;
  }
  machine.is_worker.assign(16, 1);
  machine.socket_of_node = {0, 1, 0, 1};
  machine.smt_share = 0.6;
  machine.mlp_streaming = 6.0;
  machine.dram_ns = {80, 140, 300, 360, 140, 80, 360, 300, 80, 140, 300, 360, 140, 80, 360, 300};
  machine.dram_gb_per_s = {80, 80, 26, 26};
  machine.dram_write_gb_per_s = {60, 60, 9, 9};
  machine.link_gb_per_s = {0, 50, 50, 0};
  machine.next_socket = {0, 1, 0, 1};
  machine.modified_ns = {49, 114, 114, 49};
  machine.complete();
  return machine;
}

SlowMemory slow() {
  SlowMemory slow;
  slow.read_ns = 169;
  slow.write_ns = 90;
  slow.remote_read_ratio = 1.8;
  slow.remote_write_ratio = 2.5;
  slow.remote_read_share = slow.remote_write_share = 0.6;
  slow.remote_writers = 2;
  slow.remote_writer_cost = 0.25;
  slow.granule_bytes = 256;
  return slow;
}

Program program(double write_share, double value_bytes = 400000) {
  Program program;
  program.write_share = write_share;
  program.value_bytes = value_bytes;
  program.read_cycles = program.write_cycles = 1000;
  program.read_faults = 98;
  program.fault_ns = 1000;
  program.index_lines = 8;
  return program;
}

Server server(const Program& program, std::size_t threads, double requests = 1e9,
              std::uint64_t seed = 1) {
  return Server(machine(), slow(), program, Kernel{}, std::vector<int>(threads, 2), requests, seed);
}

double rate(Server& server) {
  const double before = server.requests_done();
  const double seconds = server.advance(1.0);
  return (server.requests_done() - before) / seconds;
}

double rate_on(const Program& program, const std::vector<int>& cpus) {
  Server placed = server(program, cpus.size());
  placed.place(cpus);
  placed.advance(1.0);
  return rate(placed);
}

std::vector<int> cpus(int first, int count) {
  std::vector<int> result(static_cast<std::size_t>(count));
  std::iota(result.begin(), result.end(), first);
  return result;
}

TEST(ThreadServer, OneThreadWaitsForItsMemoryAlone) {
  Program alone = program(0.0);
  alone.index_lines = 0;
  alone.read_cycles = 0;
  alone.read_faults = 0;
  // 400 kB at 64 bytes per line, six lines at once. Its own traffic loads the memory a little.
  const double seconds = 400000.0 / 64 * 169e-9 / 6;
  const double got = rate_on(alone, {0});
  EXPECT_LT(got, 1.0 / seconds);
  EXPECT_GT(got, 0.9 / seconds);
  EXPECT_NEAR(rate_on(alone, {8}) / got, 1 / 1.8, 0.03);
}

TEST(ThreadServer, TheMemorysBandwidthIsTheMost) {
  const double bytes = 400128.0;  // whole granules
  const double written = rate_on(program(1.0), cpus(0, 8)) * bytes * 1e-9;
  EXPECT_LE(written, 9.0001);
  EXPECT_GT(written, 8.7);
}

TEST(ThreadServer, SmallWritesMoveWholeGranules) {
  Program small = program(1.0, 64);
  small.index_lines = 0;
  small.write_cycles = 0;
  EXPECT_LE(rate_on(small, cpus(0, 8)) * 64e-9, 9.0 / 4 + 1e-3);
}

TEST(ThreadServer, RemoteWritersBeyondTheFirstFewCost) {
  const Program writes = program(1.0);
  const double local = rate_on(writes, cpus(0, 8));
  // Four saturate the memory.
  double last = rate_on(writes, cpus(8, 4)) / local;
  for (const int remote : {6, 8}) {
    const double share = rate_on(writes, cpus(8, remote)) / local;
    EXPECT_LT(share, last);
    last = share;
  }
  EXPECT_LT(last, 0.45);
}

TEST(ThreadServer, ThreadsOnOneCpuTakeTurns) {
  const Program reads = program(0.0);
  EXPECT_NEAR(rate_on(reads, {0, 0, 0}) / rate_on(reads, {0}), 1.0, 0.02);
  // A busy sibling slows what the processor does, not what it waits for.
  const double pair = rate_on(reads, {0, 4});
  EXPECT_LT(pair, 1.95 * rate_on(reads, {0}));
  EXPECT_GT(pair, 1.2 * rate_on(reads, {0}));
}

TEST(ThreadServer, TheKernelSpreadsAndBalancesWhatIsFree) {
  Server spread = server(program(0.5), 8);
  spread.advance(1.0);
  std::vector<int> per_core(8, 0);
  for (const Thread& thread : spread.threads()) {
    ++per_core[static_cast<std::size_t>(
        machine().physical_of_core[static_cast<std::size_t>(thread.cpu)])];
  }
  EXPECT_EQ(per_core, std::vector<int>(8, 1));

  Server crowded = server(program(0.5), 6);
  for (std::size_t i = 0; i < 5; ++i) crowded.move(i, 0);
  crowded.advance(1.0);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(crowded.threads()[i].cpu, 0);  // pinned
  EXPECT_NE(crowded.threads()[5].cpu, 0);
}

TEST(ThreadServer, CountsAndEndsExactly) {
  Server ending = server(program(0.5), 8, 12345.0);
  double seconds = 0;
  while (!ending.ended()) seconds += ending.advance(1.0);
  EXPECT_NEAR(ending.requests_done(), 12345.0, 1e-6);
  EXPECT_GT(seconds, 0.0);
  EXPECT_EQ(ending.advance(1.0), 0.0);
  EXPECT_NEAR(ending.user_seconds() + ending.kernel_seconds(), 8 * seconds, 1e-9);
}

TEST(ThreadServer, SameSeedSameBits) {
  Server first = server(program(0.5), 12), second = server(program(0.5), 12);
  for (int epoch = 0; epoch < 5; ++epoch) {
    first.advance(1.0);
    second.advance(1.0);
    first.move(static_cast<std::size_t>(epoch), 3);
    second.move(static_cast<std::size_t>(epoch), 3);
    EXPECT_EQ(first.inputs(), second.inputs());
  }
}

TEST(ThreadServer, RefusesByName) {
  EXPECT_THROW(server(program(0.5), 0), std::invalid_argument);
  EXPECT_THROW(server(program(0.5), 4, 0.0), std::invalid_argument);
  Server small = server(program(0.5), 4);
  EXPECT_THROW(small.move(4, 0), std::invalid_argument);
  EXPECT_THROW(small.move(0, 16), std::invalid_argument);
  EXPECT_THROW(small.advance(0.0), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::threads
