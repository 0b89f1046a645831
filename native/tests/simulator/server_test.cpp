// The simulated server against closed forms, on traces made by hand.
#include "simulator/server.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "recording/micro_trace.hpp"
#include "tests/machine/small_machine.hpp"
#include "workload/random.hpp"

namespace pmoss::simulator {

using recording::modified_lines;
using recording::page_chase;
using recording::pointer_chase;
using recording::streaming;
using recording::Touch;
using recording::Trace;
using recording::TracedQuery;

namespace {

constexpr double line_bytes = 64.0;

struct Shape {
  std::uint32_t slices = 1;
  std::size_t queries = 20'000;
  std::uint32_t lines_per_slice = 1000;
  std::uint16_t touches = 10;
  std::uint32_t instructions = 400;
  bool writes = false;
};

// Query i is of slice i mod slices and touches the next lines of the slice, one after the other.
std::shared_ptr<Trace> trace_of(const Shape& shape) {
  auto trace = std::make_shared<Trace>();
  trace->slices = shape.slices;
  for (std::uint32_t line = 0; line < shape.slices * shape.lines_per_slice; ++line) {
    trace->slice_of_line.push_back(static_cast<std::uint16_t>(line / shape.lines_per_slice));
    trace->address_page_of_line.push_back(line / 64);
  }
  std::vector<std::uint32_t> next(shape.slices, 0);
  for (std::size_t i = 0; i <= shape.queries; ++i) {
    TracedQuery query{};
    query.first_touch = trace->touches.size();
    query.slice = static_cast<std::uint16_t>(i % shape.slices);
    query.instructions = shape.instructions;
    query.dependent = shape.touches;
    trace->queries.push_back(query);
    if (i == shape.queries) break;
    std::uint32_t& at = next[query.slice];
    for (int t = 0; t < shape.touches; ++t) {
      const std::uint32_t base = query.slice * shape.lines_per_slice;
      trace->touches.emplace_back(base + at, shape.writes, false, false);
      at = (at + 1) % shape.lines_per_slice;
    }
  }
  trace->bytes_of_slice.assign(shape.slices, 0);
  return trace;
}

// Eight cores on four nodes, two sockets; small caches, no load on memory counts.
Machine flat_machine() {
  Machine m = small_machine();
  m.l2_ns = 5.0;
  m.l2_lines = 256;
  m.llc_lines = 4096;
  m.llc_ns = 20.0;
  m.dram_curve = m.link_curve = {0.0, 0.0, 1.0};
  m.dram_gb_per_s.assign(4, 1e6);
  m.link_gb_per_s.assign(4, 1e6);
  m.modified_ns.assign(16, 60.0);
  return m;
}

Snapshot run(const Machine& machine, const std::shared_ptr<Trace>& trace,
             const std::vector<std::int32_t>& cores, const std::vector<std::int32_t>& nodes,
             Load load = {}, Routing routing = Routing::core, ServerOptions options = {},
             const Interference& interference = {}) {
  Server server(machine, load, options);
  server.set_instance(trace, interference);
  return server.run({cores, nodes, routing, DataPlacement::slice}, 1);
}

constexpr double cpu_ns = 100.0;  // 400 instructions at 2 per cycle and 2 GHz

TEST(Server, AChaseTakesTheLatencyOfEachLevel) {
  const auto chase_ns = [](std::uint32_t lines, std::int32_t node) {
    return 1e3 / run(flat_machine(), pointer_chase(1, lines, 40'000), {0}, {node}).throughput;
  };
  EXPECT_NEAR(chase_ns(128, 0), 5.0, 1e-6) << "L2";
  EXPECT_NEAR(chase_ns(2000, 0), 20.0, 0.05) << "last level";
  EXPECT_NEAR(chase_ns(40'000, 0), 80.0, 0.4) << "own memory";
  EXPECT_NEAR(chase_ns(40'000, 1), 150.0, 0.8) << "same socket";
  EXPECT_NEAR(chase_ns(40'000, 3), 150.0, 0.8) << "other socket";
}

TEST(Server, ALineModifiedElsewhereTakesItsClassLatency) {
  Load load;
  load.outstanding_per_worker = 1;
  const Snapshot s = run(flat_machine(), modified_lines(100, 20'000), {0, 2}, {0, 0}, load);
  for (const SliceRates& slice : s.slices) {
    EXPECT_NEAR(slice.elapsed_us / slice.queries * 1e3, 60.0, 1e-6);
    EXPECT_NEAR(slice.llc_write_misses, slice.queries, 1e-3 * slice.queries);
  }
}

TEST(Server, ClosedLoadIsBoundByTheBusiestCore) {
  const auto trace = trace_of({.slices = 8, .lines_per_slice = 10, .touches = 1});
  const double service_ns = cpu_ns + 5.0;
  const double even =
      run(flat_machine(), trace, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 0, 1, 1, 2, 2, 3, 3}).throughput;
  EXPECT_NEAR(even, 8.0 * 1e3 / service_ns, 0.01 * even);
  const double two_on_one =
      run(flat_machine(), trace, {0, 0, 2, 3, 4, 5, 6, 7}, {0, 0, 1, 1, 2, 2, 3, 3}).throughput;
  EXPECT_NEAR(two_on_one, 4.0 * 1e3 / service_ns, 0.01 * two_on_one);
}

TEST(Server, SaturatedThroughputIsTheSumOfPaces) {
  const auto trace = trace_of({.slices = 8, .lines_per_slice = 10, .touches = 1});
  Load load;
  load.kind = Load::Kind::saturated;
  const double x =
      run(flat_machine(), trace, {0, 0, 2, 2, 4, 4, 6, 7}, {0, 0, 1, 1, 2, 2, 3, 3}, load)
          .throughput;
  EXPECT_NEAR(x, 5.0 * 1e3 / (cpu_ns + 5.0), 0.01 * x);
}

TEST(Server, TheMixIsServedAtThePaceOfItsWorstPart) {
  // Five workers: three with a quarter of the queries each, two with an eighth.
  const auto trace = trace_of({.slices = 8, .lines_per_slice = 10, .touches = 1});
  Load load;
  load.kind = Load::Kind::saturated;
  load.counts_mix = true;
  const std::vector<std::int32_t> cores{0, 0, 2, 2, 4, 4, 6, 7}, nodes{0, 0, 1, 1, 2, 2, 3, 3};
  const Snapshot s = run(flat_machine(), trace, cores, nodes, load);
  const double pace = 1e3 / (cpu_ns + 5.0);
  EXPECT_NEAR(s.throughput, 4.0 * pace, 0.04 * pace);
  double served = 0.0;
  for (const SliceRates& slice : s.slices) served += slice.queries;
  EXPECT_NEAR(served, 5.0 * pace, 0.05 * pace) << "all queries stay in the counters";
}

TEST(Server, OnlyABacklogCanServeAnotherMix) {
  Load load;
  load.counts_mix = true;
  EXPECT_THROW(Server(flat_machine(), load), std::invalid_argument);
}

TEST(Server, LittlesLawHolds) {
  const auto trace = trace_of({.lines_per_slice = 10, .touches = 1});
  Load load;
  load.outstanding_per_worker = 4;
  const Snapshot s = run(flat_machine(), trace, {3}, {1}, load);
  EXPECT_NEAR(s.throughput * s.latency_p50_us, 8.0 * 4.0, 0.02 * 32.0);
}

TEST(Server, AResponseOfASaturatedWorkerIsThatOfAFullQueue) {
  // Short and long queries in turn: a queue of 32 always holds 16 of each.
  const auto trace = trace_of({.lines_per_slice = 10, .touches = 1});
  for (std::size_t i = 1; i < trace->size(); i += 2) trace->queries[i].instructions = 4000;
  Load load;
  load.kind = Load::Kind::saturated;
  const Snapshot s = run(flat_machine(), trace, {3}, {1}, load);
  const double response_us = 16.0 * (105.0 + 1005.0) * 1e-3;
  EXPECT_NEAR(s.latency_p50_us, response_us, 0.02 * response_us);
  EXPECT_NEAR(s.latency_p99_us, response_us, 0.02 * response_us);
  EXPECT_NEAR(s.throughput * response_us, 32.0, 0.1) << "Little's law";
}

TEST(Server, AnOpenLoadIsServedAsOffered) {
  const auto trace = trace_of({.slices = 8, .lines_per_slice = 10, .touches = 1});
  Load load;
  load.kind = Load::Kind::open;
  load.offered_mq_per_s = 40.0;
  const std::vector<std::int32_t> cores{0, 1, 2, 3, 4, 5, 6, 7}, nodes{0, 0, 1, 1, 2, 2, 3, 3};
  EXPECT_NEAR(run(flat_machine(), trace, cores, nodes, load).throughput, 40.0, 1.0);
  load.offered_mq_per_s = 1000.0;
  EXPECT_NEAR(run(flat_machine(), trace, cores, nodes, load).throughput, 8e3 / 105.0, 1.0);
}

TEST(Server, RoutersBoundTheThroughputWhereTheyAreModelled) {
  const auto trace = trace_of({.slices = 8, .lines_per_slice = 10, .touches = 1});
  Machine machine = flat_machine();
  machine.routers = 2;
  machine.dispatch_ns = 200.0;
  ServerOptions options;
  options.dispatch = ServerOptions::Dispatch::modelled;
  for (const auto kind : {Load::Kind::closed, Load::Kind::saturated}) {
    Load load;
    load.kind = kind;
    const double x = run(machine, trace, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 0, 1, 1, 2, 2, 3, 3}, load,
                         Routing::core, options)
                         .throughput;
    EXPECT_NEAR(x, 10.0, 0.02);
  }
}

TEST(Server, StreamsSaturateMemoryAndLinksAtTheirBandwidth) {
  const auto trace = streaming(8, 20'000, 10, 80'000);
  Machine machine = flat_machine();
  machine.dram_gb_per_s.assign(4, 5.0);
  const std::vector<std::int32_t> cores{0, 1, 2, 3, 4, 5, 6, 7};
  Snapshot s = run(machine, trace, cores, {1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_NEAR(s.read_gb_per_s[1], 5.0, 0.15);
  EXPECT_NEAR(s.throughput * 10.0 * line_bytes * 1e-3, s.read_gb_per_s[1], 0.05);
  machine = flat_machine();
  machine.link_gb_per_s.assign(4, 3.0);
  s = run(machine, trace, {0, 1, 2, 3, 0, 1, 2, 3}, {2, 2, 2, 2, 3, 3, 3, 3});
  EXPECT_NEAR(s.link_gb_per_s[2], 3.0, 0.1);  // from socket 1 to socket 0
  EXPECT_EQ(s.link_gb_per_s[1], 0.0);

  machine = flat_machine();
  machine.dram_gb_per_s.assign(4, 6.0);
  machine.dram_write_gb_per_s.assign(4, 3.0);
  s = run(machine, streaming(8, 20'000, 10, 80'000, 1.0), cores, {1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_NEAR(s.read_gb_per_s[1], s.write_gb_per_s[1], 0.1);
  EXPECT_NEAR(s.read_gb_per_s[1] / 6.0 + s.write_gb_per_s[1] / 3.0, 1.0, 0.04);
}

TEST(Server, RoutingByNodeStaysOnIt) {
  const auto trace = pointer_chase(4, 20'000, 40'000);
  for (const auto kind : {Load::Kind::closed, Load::Kind::saturated}) {
    Load load;
    load.kind = kind;
    for (const Routing routing : {Routing::node, Routing::any}) {
      const Snapshot s = run(flat_machine(), trace, {}, {0, 1, 2, 3}, load, routing);
      for (const SliceRates& slice : s.slices) {
        EXPECT_GT(slice.local_dram + slice.remote_dram, 0.0);
        EXPECT_EQ(slice.remote_dram > 0.0, routing == Routing::any);
      }
    }
  }
}

TEST(Server, ModifiedLinesCrossALinkAtItsBandwidthAtMost) {
  Machine machine = flat_machine();
  Load load;
  load.outstanding_per_worker = 1;
  const auto trace = modified_lines(100, 40'000);
  for (const double gb_per_s : {0.1, 0.5}) {
    machine.link_gb_per_s.assign(4, gb_per_s);
    const Snapshot s = run(machine, trace, {0, 4}, {0, 0}, load);
    EXPECT_NEAR(s.link_gb_per_s[1], gb_per_s, 0.05 * gb_per_s);
    EXPECT_NEAR(s.link_gb_per_s[2], gb_per_s, 0.05 * gb_per_s);
  }
}

// Queries of random slices read and write random lines of their own slice, now and then of another.
std::shared_ptr<Trace> random_trace(std::uint64_t seed, std::size_t queries, bool writes = true) {
  constexpr std::uint32_t slices = 16, lines_per_slice = 2000;
  auto trace = trace_of({.slices = slices, .queries = queries, .lines_per_slice = lines_per_slice});
  Random random(seed);
  for (std::size_t i = 0; i < queries; ++i) {
    TracedQuery& query = trace->queries[i];
    query.slice = static_cast<std::uint16_t>(random.below(slices));
    query.instructions = static_cast<std::uint32_t>(200 + random.below(400));
    for (std::size_t t = query.first_touch; t < trace->queries[i + 1].first_touch; ++t) {
      const std::uint64_t slice = random.below(50) == 0 ? random.below(slices) : query.slice;
      const auto line = static_cast<std::uint32_t>(
          slice * lines_per_slice + random.below(random.below(2) ? 20 : lines_per_slice));
      const bool write = random.below(5) == 0 && writes;
      trace->touches[t] = Touch(line, write, random.below(3) == 0, false);
    }
  }
  return trace;
}

std::vector<std::int32_t> random_places(Random& random, std::size_t n, std::uint64_t below) {
  std::vector<std::int32_t> places(n);
  for (std::int32_t& place : places) place = static_cast<std::int32_t>(random.below(below));
  return places;
}

// What slices, cores, memories and links counted is the same.
TEST(Server, CountsAreConserved) {
  constexpr double workers = 8.0;
  Random random(3);
  for (const bool inclusive : {false, true}) {
    for (const auto kind : {Load::Kind::closed, Load::Kind::saturated, Load::Kind::open}) {
      for (const Routing routing : {Routing::core, Routing::node, Routing::any}) {
        Machine machine = flat_machine();
        machine.llc_inclusive = inclusive;
        machine.dram_gb_per_s.assign(4, 8.0);
        Load load;
        load.kind = kind;
        load.offered_mq_per_s = 4.0;
        // Lines that are written count nowhere where the own memory serves them.
        const bool writes = routing != Routing::any;
        const auto trace = random_trace(random.next(), 8000, writes);
        const Snapshot s = run(machine, trace, random_places(random, 16, 8),
                               random_places(random, 16, 4), load, routing);
        double queries = 0.0, lines = 0.0, loads = 0.0, busy = 0.0, read = 0.0, crossed = 0.0;
        double remote = 0.0;
        for (const SliceRates& slice : s.slices) {
          queries += slice.queries;
          lines += slice.memory_accesses;
          loads += slice.local_dram + slice.remote_dram;
          remote += slice.remote_dram;
          busy += slice.elapsed_us;
          EXPECT_DOUBLE_EQ(slice.cycles, slice.task_clock_us * 1e3 * machine.clock_ghz);
          EXPECT_LE(slice.memory_accesses, slice.llc_misses * (1.0 + 1e-9));
          EXPECT_LE(slice.memory_misses, slice.memory_accesses * (1.0 + 1e-9));
          EXPECT_LE(slice.remote_dram, slice.memory_misses * (1.0 + 1e-9));
          EXPECT_LE(slice.cycles_l3_miss, slice.cycles_mem_any * (1.0 + 1e-9));
        }
        for (const double gb_per_s : s.read_gb_per_s) read += gb_per_s;
        for (const double gb_per_s : s.link_gb_per_s) crossed += gb_per_s;
        EXPECT_NEAR(queries, s.throughput, 1e-9 * queries);
        if (!writes) {
          EXPECT_NEAR(read, lines * line_bytes * 1e-3, 1e-9 * read);
        }
        EXPECT_NEAR(loads, lines * 2.0 / 3.0, 0.1 * lines) << "a third is fetched ahead";
        EXPECT_GT(read, lines * line_bytes * 1e-3 * (1.0 - 1e-9));
        EXPECT_LE(crossed, (1e-3 * line_bytes) * 20.0 * queries) << "two crossings per touch";
        EXPECT_GT(crossed, 0.0);
        EXPECT_GT(remote, 0.0);
        // Queries that run as the measurement begins and ends count as a whole.
        EXPECT_LT(busy, workers * 1.01);
        if (kind == Load::Kind::saturated && routing == Routing::any) {
          EXPECT_NEAR(busy, workers, 0.01 * workers);
        }
      }
    }
  }
}

// The trace that would have been recorded with 1 line and page of `sampling`.
std::shared_ptr<Trace> sampled(const Trace& all, std::uint32_t sampling) {
  auto trace = std::make_shared<Trace>(all);
  trace->line_sampling = trace->page_sampling = sampling;
  trace->touches.clear();
  trace->page_touches.clear();
  const auto is_recorded = [&](std::uint32_t number) { return mix64(number) % sampling == 0; };
  for (std::size_t i = 0; i <= all.size(); ++i) {
    trace->queries[i].first_touch = trace->touches.size();
    trace->queries[i].first_page = trace->page_touches.size();
    if (i == all.size()) break;
    for (const Touch touch : all.touches_of(i)) {
      if (is_recorded(touch.line())) trace->touches.push_back(touch);
    }
    for (const std::uint32_t page : all.pages_of(i)) {
      if (is_recorded(page)) trace->page_touches.push_back(page);
    }
  }
  return trace;
}

TEST(Server, SampledLinesAndPagesStandForAll) {
  constexpr double reads = 30'000.0 / 8.0;  // those that are measured
  const double spread = 4.0 / std::sqrt(reads);
  const auto chase = pointer_chase(1, 60'000, 60'000);
  Machine machine = flat_machine();
  for (const double gb_per_s : {1e6, 0.4}) {
    machine.dram_gb_per_s.assign(4, gb_per_s);
    const Snapshot all = run(machine, chase, {0}, {0});
    const Snapshot part = run(machine, sampled(*chase, 8), {0}, {0});
    EXPECT_NEAR(part.throughput, all.throughput, spread * all.throughput);
    EXPECT_NEAR(part.read_gb_per_s[0], all.read_gb_per_s[0], spread * all.read_gb_per_s[0]);
    EXPECT_NEAR(part.slices[0].memory_accesses, part.throughput, spread * part.throughput);
    EXPECT_NEAR(part.slices[0].elapsed_us, 1.0, spread);
  }
  const auto pages = page_chase(1, 6000, 60'000);
  for (TracedQuery& query : pages->queries) query.instructions = 60;
  const Snapshot part = run(machine, sampled(*pages, 8), {0}, {0});
  EXPECT_NEAR(1e3 / part.throughput, 15.0 + machine.page_walk_ns, 0.06 * 30.0);
  EXPECT_NEAR(part.slices[0].dtlb_misses, part.throughput, 0.12 * part.throughput);
}

TEST(Server, MoreBandwidthNeverLowersThroughput) {
  Random random(7);
  const auto streams = streaming(16, 10'000, 10, 20'000, 0.25);
  for (int round = 0; round < 3; ++round) {
    const std::vector<std::int32_t> cores = random_places(random, 16, 8);
    const std::vector<std::int32_t> nodes = random_places(random, 16, 4);
    for (const bool links : {false, true}) {
      double before = 0.0;
      for (const double gb_per_s : {1.0, 3.0, 9.0, 27.0}) {
        Machine machine = flat_machine();
        machine.dram_curve = machine.link_curve = {0.45, 0.1, 12.0};
        (links ? machine.link_gb_per_s : machine.dram_gb_per_s).assign(4, gb_per_s);
        const double x = run(machine, streams, cores, nodes).throughput;
        EXPECT_GT(x, before * 0.99) << gb_per_s << (links ? " of links" : " of memory");
        before = x;
      }
    }
  }
}

TEST(Server, RelabelledNodesChangeNothing) {
  // Each core and node has another's name; sockets stay together.
  const std::vector<std::int32_t> new_core{6, 7, 4, 5, 3, 2, 1, 0}, new_node{3, 2, 1, 0};
  Random random(11);
  const std::vector<std::int32_t> cores = random_places(random, 16, 8);
  const std::vector<std::int32_t> nodes = random_places(random, 16, 4);
  std::vector<std::int32_t> other_cores, other_nodes;
  for (const std::int32_t core : cores)
    other_cores.push_back(new_core[static_cast<std::size_t>(core)]);
  for (const std::int32_t node : nodes)
    other_nodes.push_back(new_node[static_cast<std::size_t>(node)]);
  Machine machine = flat_machine();
  machine.dram_curve = {0.45, 0.1, 12.0};
  machine.dram_gb_per_s.assign(4, 4.0);
  Load saturated;
  saturated.kind = Load::Kind::saturated;
  const auto trace = random_trace(5, 40'000);
  for (const Load& load : {Load{}, saturated}) {
    const Snapshot a = run(machine, trace, cores, nodes, load);
    const Snapshot b = run(machine, trace, other_cores, other_nodes, load);
    EXPECT_NEAR(a.throughput, b.throughput, 3e-3 * a.throughput);
    for (std::size_t slice = 0; slice < 16; ++slice) {
      EXPECT_NEAR(a.slices[slice].cycles, b.slices[slice].cycles, 0.03 * a.slices[slice].cycles);
    }
    for (std::size_t node = 0; node < 4; ++node) {
      const double read = a.read_gb_per_s[node];
      EXPECT_NEAR(b.read_gb_per_s[static_cast<std::size_t>(new_node[node])], read, 0.03 * read);
    }
  }
}

TEST(Server, AReaderWaitsForALockAndBeginsAgain) {
  // The queries of slice 0 lock a line; those of slice 1 read it, or another one.
  const auto reader_ns = [](bool locks, bool same_line) {
    auto trace = trace_of({.slices = 2, .lines_per_slice = 1, .touches = 1});
    for (std::size_t i = 0; i < trace->size(); ++i) {
      const bool reads = i % 2 == 1;
      trace->touches[i] = Touch(reads && !same_line ? 1 : 0, !reads, false, locks && !reads);
    }
    Load load;
    load.kind = Load::Kind::saturated;
    const Snapshot s = run(flat_machine(), trace, {0, 2}, {0, 0}, load);
    return s.slices[1].elapsed_us / s.slices[1].queries * 1e3;
  };
  EXPECT_NEAR(reader_ns(true, false), cpu_ns + 5.0, 1e-6);
  const double undisturbed = reader_ns(false, true);
  EXPECT_NEAR(undisturbed, cpu_ns + 60.0, 1.0) << "modified elsewhere each time";
  // The line is always locked: each reader waits for the rest of a writer's query, and repeats its
  // own work.
  const double waiting = reader_ns(true, true);
  EXPECT_GT(waiting, undisturbed + cpu_ns);
  EXPECT_LT(waiting, undisturbed + cpu_ns + undisturbed);
}

TEST(Server, ReadersMeetALockAsOftenAsItIsHeld) {
  // One worker takes a lock halfway through each of its queries; another reads the line halfway
  // through its own, of the same mean length. Half of the reads meet the lock.
  auto trace = trace_of({.slices = 2, .queries = 40'000, .lines_per_slice = 1, .touches = 1});
  Random random(1);
  double instructions = 0.0;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    trace->queries[i].instructions = static_cast<std::uint32_t>(20'000 + random.below(20'000));
    instructions += trace->queries[i].instructions;
    trace->touches[i] = Touch(0, i % 2 == 0, false, i % 2 == 0);
  }
  Load load;
  load.kind = Load::Kind::saturated;
  const Snapshot s = run(flat_machine(), trace, {0, 2}, {0, 0}, load);
  // At 4 instructions per ns. A query that meets the lock waits and repeats its own work.
  const double cpu_ns = instructions / static_cast<double>(trace->size()) / 4.0;
  const double reader_ns = s.slices[1].elapsed_us / s.slices[1].queries * 1e3;
  const double repeated = reader_ns / cpu_ns - 1.0;
  EXPECT_GT(repeated, 0.5) << "half of them once, and the wait";
  EXPECT_LT(repeated, 0.5 + 0.25);
}

TEST(Server, TakingALockIsNotOverlapped) {
  Machine machine = flat_machine();
  machine.mlp_dependent = 2.0;
  machine.l2_ns = 0.0;
  Load load;
  load.outstanding_per_worker = 1;
  const auto writer_ns = [&](bool locks) {
    auto trace = modified_lines(100, 20'000);
    for (Touch& touch : trace->touches) touch = Touch(touch.line(), true, false, locks);
    const Snapshot s = run(machine, trace, {0, 2}, {0, 0}, load);
    return s.slices[1].elapsed_us / s.slices[1].queries * 1e3;
  };
  EXPECT_NEAR(writer_ns(false), 30.0, 0.1);
  EXPECT_NEAR(writer_ns(true), 60.0, 0.1);
}

TEST(Server, NumaBalancingBringsPagesToTheirUsersButFaultsTakeTime) {
  const auto trace = pointer_chase(1, 40'000, 40'000);  // no line comes twice
  const auto chase_ns = [&](bool balancing, double fault_ns, DataPlacement data) {
    ServerOptions options;
    options.numa_balancing = balancing;
    options.balancing.hint_fault_ns = fault_ns;
    Server server(flat_machine(), {}, options);
    server.set_instance(trace);
    const std::vector<std::int32_t> core{6}, node{0};
    return 1e3 / server.run({core, node, Routing::core, data}, 1).throughput;
  };
  EXPECT_NEAR(chase_ns(false, 2000.0, DataPlacement::loader), 150.0, 0.1);
  const double moved = 0.25 * 150.0 + 0.75 * 80.0;
  EXPECT_NEAR(chase_ns(true, 0.0, DataPlacement::loader), moved, 5.0);  // of 625 pages
  EXPECT_NEAR(
      chase_ns(true, 2000.0, DataPlacement::loader) / chase_ns(true, 0.0, DataPlacement::loader),
      1.0 / (1.0 - 0.065 * 2.0 / 8.0), 1e-4);
  for (const auto data : {DataPlacement::interleaved, DataPlacement::slice}) {
    EXPECT_EQ(chase_ns(true, 2000.0, data), chase_ns(false, 2000.0, data)) << "exempt";
  }
}

TEST(Server, CoTenantsTakeTimeAndHardwareThreadsShare) {
  const auto trace = trace_of({.lines_per_slice = 10, .touches = 1});
  const double alone = run(flat_machine(), trace, {0}, {0}).throughput;
  Interference busy;
  busy.busy_share.assign(8, 0.5);
  EXPECT_NEAR(run(flat_machine(), trace, {0}, {0}, {}, Routing::core, {}, busy).throughput,
              alone / 2.0, 0.01 * alone);
  Machine machine = flat_machine();
  machine.physical_of_core = {0, 0, 1, 1, 2, 2, 3, 3};
  machine.smt_share = 0.6;
  const auto two = trace_of({.slices = 2, .lines_per_slice = 10, .touches = 1});
  EXPECT_NEAR(run(machine, two, {0, 1}, {0, 0}).throughput, 1.2 * alone, 0.02 * alone);
  EXPECT_NEAR(run(machine, two, {0, 2}, {0, 0}).throughput, 2.0 * alone, 0.02 * alone);

  // A query that runs already is slowed from when the other thread begins: 60 us take 100, and what
  // takes 100 us alone ends 66.7 us later.
  const auto once = trace_of({.slices = 2, .queries = 2, .touches = 0, .instructions = 240'000});
  once->queries[1].instructions = 400'000;
  EXPECT_NEAR(run(machine, once, {0, 1}, {0, 0}).throughput, 1.0 / (100.0 / 0.6 - 100.0), 1e-6);
}

TEST(Server, TheSameArgumentsGiveTheSameBitsWhateverRanBefore) {
  const auto trace = trace_of({.slices = 8, .lines_per_slice = 3000, .writes = true});
  Server server(flat_machine(), {});
  server.set_instance(trace);
  const std::vector<std::int32_t> cores{0, 1, 2, 3, 4, 5, 6, 7}, other{7, 7, 7, 0, 0, 0, 1, 1};
  const std::vector<std::int32_t> nodes{0, 0, 1, 1, 2, 2, 3, 3};
  const Snapshot first = server.run({cores, nodes, Routing::any, DataPlacement::interleaved}, 5);
  server.run({other, nodes, Routing::core, DataPlacement::slice}, 6);
  const Snapshot again = server.run({cores, nodes, Routing::any, DataPlacement::interleaved}, 5);
  EXPECT_EQ(first.throughput, again.throughput);
  EXPECT_EQ(first.latency_p99_us, again.latency_p99_us);
  EXPECT_EQ(first.link_gb_per_s, again.link_gb_per_s);
  EXPECT_EQ(first.slices[3].cycles, again.slices[3].cycles);
}

TEST(Server, RefusesWhatMakesNoSense) {
  Server server(flat_machine(), {});
  const std::vector<std::int32_t> single{0}, pair{0, 0}, far{8}, nowhere{4};
  EXPECT_THROW(server.run({single, single}, 0), std::logic_error);
  EXPECT_THROW(server.set_instance(std::make_shared<Trace>()), std::invalid_argument);
  EXPECT_THROW(server.set_instance(trace_of({}), {{0.5}, {}, {}, {}, {}}), std::invalid_argument);
  server.set_instance(trace_of({}));
  EXPECT_THROW(server.run({single, pair}, 0), std::invalid_argument);
  for (const auto data : {DataPlacement::first_touch, DataPlacement::keep}) {
    EXPECT_THROW(server.run({single, single, Routing::core, data}, 0), std::invalid_argument);
  }
  EXPECT_THROW(server.run({pair, single}, 0), std::invalid_argument);
  EXPECT_THROW(server.run({far, single}, 0), std::invalid_argument);
  EXPECT_THROW(server.run({single, nowhere}, 0), std::invalid_argument);
  Machine large = flat_machine();
  for (int core = 8; core < 1'025; ++core) {
    large.node_of_core.push_back(0);
    large.llc_of_core.push_back(0);
    large.is_worker.push_back(1);
  }
  EXPECT_THROW(Server(large, {}), std::invalid_argument);
  ServerOptions options;
  options.warmup_share = 1.0;
  EXPECT_THROW(Server(flat_machine(), {}, options), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::simulator
