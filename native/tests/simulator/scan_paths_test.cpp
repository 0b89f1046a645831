#include "simulator/scan_paths.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <stdexcept>

namespace pmoss::simulator {
namespace {

/// Two blades of four sockets, without loaded latencies, so that times have closed forms.
Machine machine() {
  Machine m;
  for (int i = 0; i < 8; ++i) {
    m.socket_of_node.push_back(i);
    m.node_of_core.push_back(i);
    m.llc_of_core.push_back(i);
    m.is_worker.push_back(1);
    m.dram_gb_per_s.push_back(64.0);
    for (int j = 0; j < 8; ++j) {
      const int apart = std::abs(i - j);
      const bool same = i / 4 == j / 4;
      m.dram_ns.push_back(i == j ? 100.0 : !same ? 400.0 : apart == 2 ? 300.0 : 200.0);
    }
  }
  m.clock_ghz = 1.0;
  m.branch_miss_cycles = 10.0;
  m.dram_curve = {0.0, 0.0, 1.0};
  return m;
}

OffloadParameters parameters() {
  OffloadParameters p;
  p.socket_link_gb_per_s = 16.0;
  p.hub_link_gb_per_s = 16.0;
  p.prefetch_lines = 1;
  p.prefetch_page_lines = 1 << 20;
  p.engine_lines = 64;
  p.engine_line_ns = 10.0;
  p.block_kib = 64;
  return p;
}

Scan scan_of(int storage_node, double lines) {
  Scan scan;
  scan.storage_node = storage_node;
  scan.rows = 16 * lines;
  return scan;
}

double ns_per_line(const ScanPaths& paths, int storage_node, AccessPath path, double lines) {
  const double more = paths.run(scan_of(storage_node, 2 * lines), path, 0).run_time_us;
  const double less = paths.run(scan_of(storage_node, lines), path, 0).run_time_us;
  return 1e3 * (more - less) / lines;
}

TEST(ScanPaths, OneLineUnderWayTakesTheIdleLatencyEach) {
  const ScanPaths paths(machine(), parameters());
  const std::map<int, double> expected{{0, 100}, {1, 200}, {2, 300}, {3, 200}, {4, 400}, {7, 400}};
  for (const auto& [node, ns] : expected) {
    EXPECT_NEAR(ns_per_line(paths, node, AccessPath::cpu, 1000), ns, 1e-6) << node;
  }
}

TEST(ScanPaths, ManyLinesUnderWayDivideTheLatency) {
  OffloadParameters p = parameters();
  p.prefetch_lines = 10;
  EXPECT_NEAR(ns_per_line(ScanPaths(machine(), p), 1, AccessPath::cpu, 2000), 20.0, 0.2);
}

TEST(ScanPaths, APrefetcherThatStopsAtPagesWaitsForEachFirstLine) {
  OffloadParameters p = parameters();
  p.prefetch_lines = 64;
  p.prefetch_page_lines = 64;
  // A page costs its latency, and the time of its lines on the memory's queue.
  EXPECT_NEAR(ns_per_line(ScanPaths(machine(), p), 0, AccessPath::cpu, 2048),
              (100.0 + 63 * 1.0) / 64, 0.1);
}

TEST(ScanPaths, ALinkThatIsFullSetsThePace) {
  OffloadParameters p = parameters();
  p.prefetch_lines = 256;
  p.line_overhead_bytes = 16.0;
  const ScanPaths paths(machine(), p);
  EXPECT_NEAR(ns_per_line(paths, 1, AccessPath::cpu, 8000), 5.0, 0.2);
  EXPECT_NEAR(paths.bandwidth_gb_per_s(0, 1, 8), 16.0 * 64 / 80, 0.2);
  EXPECT_NEAR(paths.bandwidth_gb_per_s(0, 0, 8), 64.0, 1.0);
}

TEST(ScanPaths, TheCoreSetsThePaceWhereItIsSlower) {
  OffloadParameters p = parameters();
  p.prefetch_lines = 64;
  p.cycles_per_value = 2.0;
  const ScanPaths paths(machine(), p);
  EXPECT_NEAR(ns_per_line(paths, 4, AccessPath::cpu, 4000), 32.0, 0.5);
  EXPECT_NEAR(ns_per_line(paths, 4, AccessPath::offload, 8192), 32.0, 0.5);
  // Every value matches: writing its position costs what was said.
  p.cycles_per_result = 3.0;
  const ScanPaths writing(machine(), p);
  Scan less = scan_of(0, 4000), more = scan_of(0, 8000);
  less.results = less.rows;
  more.results = more.rows;
  const double us = writing.run(more, AccessPath::cpu, 0).run_time_us -
                    writing.run(less, AccessPath::cpu, 0).run_time_us;
  EXPECT_NEAR(1e3 * us / 4000, 16 * 5.0, 0.5);
}

TEST(ScanPaths, TheEngineCopiesAtItsPaceFromEveryDistance) {
  OffloadParameters p = parameters();
  p.engine_coherence_ns = 4.0;
  const ScanPaths paths(machine(), p);
  for (const int node : {0, 1, 2, 4}) {
    EXPECT_NEAR(ns_per_line(paths, node, AccessPath::offload, 16384), 14.0, 0.2) << node;
    EXPECT_NEAR(ns_per_line(paths, node, AccessPath::relaxed, 16384), 10.0, 0.2) << node;
  }
}

TEST(ScanPaths, CopyingAndScanningOverlap) {
  OffloadParameters p = parameters();
  p.cycles_per_value = 0.625;  // 10 ns per line, as the engine
  const ScanPaths paths(machine(), p);
  EXPECT_NEAR(ns_per_line(paths, 4, AccessPath::offload, 16384), 10.0, 1.0);
}

TEST(ScanPaths, SetUpIsPaidOnceAndNotForAnEmptyTable) {
  OffloadParameters p = parameters();
  p.scan_setup_us = 7.0;
  p.engine_setup_us = 100.0;
  const ScanPaths paths(machine(), p);
  for (const AccessPath path : {AccessPath::cpu, AccessPath::offload, AccessPath::relaxed}) {
    EXPECT_EQ(paths.run(scan_of(4, 0), path, 0).run_time_us, 7.0);
  }
  EXPECT_GT(paths.run(scan_of(4, 1), AccessPath::offload, 0).run_time_us, 107.0);
  EXPECT_LT(paths.run(scan_of(4, 1), AccessPath::offload, 0).run_time_us, 110.0);
}

TEST(ScanPaths, BackgroundIsReadBeforeTheScanAndSlowsIt) {
  OffloadParameters p = parameters();
  p.prefetch_lines = 16;
  const ScanPaths paths(machine(), p);
  Scan quiet = scan_of(4, 4000), busy = quiet, engaged = quiet;
  busy.cpu_workers = 6;
  busy.cpu_worker_gb_per_s = 2.0;
  engaged.engine_workers = 1;
  engaged.engine_worker_gb_per_s = 3.0;
  const ScanOutcome alone = paths.run(quiet, AccessPath::cpu, 3);
  EXPECT_EQ(alone.link_traffic_gb_per_s, 0.0);
  const ScanOutcome beside = paths.run(busy, AccessPath::cpu, 3);
  EXPECT_NEAR(beside.link_traffic_gb_per_s, 12.0, 1.0);
  EXPECT_GT(beside.run_time_us, 1.02 * alone.run_time_us);
  const ScanOutcome copying = paths.run(engaged, AccessPath::offload, 3);
  EXPECT_NEAR(copying.engine_traffic_gb_per_s, 3.0, 0.5);
  EXPECT_GT(copying.run_time_us, 1.5 * paths.run(quiet, AccessPath::offload, 3).run_time_us);
}

TEST(ScanPaths, LinksCountPayloadAndOverheadWhereTheDataGo) {
  OffloadParameters p = parameters();
  p.line_overhead_bytes = 16.0;
  p.request_bytes = 8.0;
  const ScanPaths paths(machine(), p);
  std::map<std::string, LinkTraffic> busy;
  const auto look = [&](int node, AccessPath path) {
    busy.clear();
    const ScanOutcome outcome = paths.run(scan_of(node, 2000), path, 0);
    for (std::size_t i = 0; i < outcome.links.size(); ++i) {
      if (outcome.links[i].payload_gb_per_s > 0) busy[paths.link_names()[i]] = outcome.links[i];
    }
  };
  look(0, AccessPath::cpu);
  EXPECT_TRUE(busy.empty());
  look(1, AccessPath::cpu);
  ASSERT_EQ(busy.size(), 1U);
  const LinkTraffic traffic = busy.at("socket1-socket0");
  EXPECT_NEAR(traffic.overhead_gb_per_s / traffic.payload_gb_per_s, 16.0 / 64, 1e-9);
  look(2, AccessPath::cpu);  // the square has no diagonal
  EXPECT_EQ(busy.size(), 2U);
  look(6, AccessPath::cpu);
  EXPECT_EQ(busy.size(), 3U);
  EXPECT_TRUE(busy.contains("hub3-hub0"));
  // A copy of local data still goes to the hub and back.
  look(0, AccessPath::offload);
  EXPECT_EQ(busy.size(), 2U);
  EXPECT_TRUE(busy.contains("socket0-hub0"));
}

TEST(ScanPaths, TheSameSeedGivesTheSameBitsInAnyNumberOfThreads) {
  const ScanPaths paths(machine(), parameters());
  std::vector<Scan> scans;
  std::vector<std::uint8_t> ways;
  std::vector<std::uint64_t> seeds;
  for (int i = 0; i < 24; ++i) {
    Scan scan = scan_of(i % 8, 500 + 100 * i);
    scan.cpu_workers = i % 4;
    scan.cpu_worker_gb_per_s = 2.0;
    scan.engine_workers = i % 2;
    scan.engine_worker_gb_per_s = 1.5;
    scans.push_back(scan);
    ways.push_back(static_cast<std::uint8_t>(i % 3));
    seeds.push_back(static_cast<std::uint64_t>(i));
  }
  std::vector<ScanOutcome> on_one(scans.size()), on_three(scans.size());
  paths.run_batch(scans, ways, seeds, 1, on_one);
  paths.run_batch(scans, ways, seeds, 3, on_three);
  for (std::size_t i = 0; i < scans.size(); ++i) {
    EXPECT_EQ(on_one[i].run_time_us, on_three[i].run_time_us);
    EXPECT_EQ(on_one[i].link_traffic_gb_per_s, on_three[i].link_traffic_gb_per_s);
  }
}

TEST(ScanPaths, WhatIsImpossibleIsRefused) {
  OffloadParameters p = parameters();
  p.sockets_per_blade = 3;
  EXPECT_THROW(ScanPaths(machine(), p), std::invalid_argument);
  p = parameters();
  p.engine_line_ns = 0;
  EXPECT_THROW(ScanPaths(machine(), p), std::invalid_argument);
  const ScanPaths paths(machine(), parameters());
  Scan scan = scan_of(8, 1);
  EXPECT_THROW(paths.run(scan, AccessPath::cpu, 0), std::invalid_argument);
  scan = scan_of(0, 1);
  scan.results = 17;
  EXPECT_THROW(paths.run(scan, AccessPath::cpu, 0), std::invalid_argument);
  scan = scan_of(0, std::numeric_limits<double>::quiet_NaN());
  EXPECT_THROW(paths.run(scan, AccessPath::cpu, 0), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::simulator
