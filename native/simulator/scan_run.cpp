#include "simulator/scan_run.hpp"

#include <algorithm>
#include <cmath>

#include "simulator/scan_checks.hpp"

namespace pmoss::simulator {
namespace {

constexpr double line_bytes = 64.0;
constexpr double values_per_line = 16.0;
/// Lines of the background that travel as one event.
constexpr int background_unit = 4;
/// The background alone, before the counters are read and the scan begins.
constexpr double settle_ns = 5'000.0;
constexpr double reading_ns = 10'000.0;
/// Part of a long scan that is simulated line by line; its second half gives the pace of the rest.
constexpr std::uint64_t sampled_lines = 1'024;
constexpr std::uint64_t sampled_blocks = 3;
/// A background worker's pauses differ from each other by up to this share either way.
constexpr double pace_jitter = 0.5;

std::uint64_t lines_of(const Scan& scan) {
  return static_cast<std::uint64_t>(std::ceil(scan.rows / values_per_line));
}

/// How long all parts of a scan take if `finish` holds when the first ones were done: the others go
/// on at the pace of the second half. `per_part` and `rest` are in the same unit.
double extrapolate(const std::vector<double>& finish, double start, std::uint64_t per_part,
                   std::uint64_t rest) {
  const std::size_t n = finish.size();
  const double sampled = finish.back() - start;
  if (rest == 0) return sampled;
  const std::size_t half = n / 2;
  const double pace =
      (finish.back() - finish[half - 1]) / static_cast<double>((n - half) * per_part);
  return sampled + pace * static_cast<double>(rest);
}

}  // namespace

void ScanRun::add_background(const Scan& scan) {
  const int node = scan.execution_node;
  // A scan of local data has its background exchange data with the next socket.
  const int peer = scan.storage_node != node ? scan.storage_node : topology_.co_tenant_of(node);
  for (int w = 0; w < scan.cpu_workers; ++w) {
    const std::size_t flow = add_flow(topology_.load_route(node, peer), background_unit,
                                      p_.prefetch_lines, scan.cpu_worker_gb_per_s);
    flows_[flow].counted = 1;
  }
  const int hub = topology_.hub_of(node);
  for (int w = 0; w < scan.engine_workers; ++w) {
    // To and fro: every second worker copies the other way.
    const bool away = w % 2 == 1;
    const std::size_t flow =
        add_flow(topology_.copy_route(hub, away ? node : peer, away ? peer : node, true), copy_unit,
                 p_.engine_lines, scan.engine_worker_gb_per_s);
    flows_[flow].counted = 2;
  }
  // Starts are scattered over one pause, so that workers are not in step.
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    const auto window = static_cast<int>(flows_[f].window);
    for (int i = 0; i < window; ++i) {
      push(flows_[f].pause_ns * window * random_.uniform(), f, issue, 0);
    }
  }
}

void ScanRun::settle(ScanOutcome& outcome) {
  if (flows_.empty()) return;
  run_until(settle_ns);
  const std::array<double, 3> before = moved_;
  run_until(settle_ns + reading_ns);
  outcome.link_traffic_gb_per_s = (moved_[1] - before[1]) / reading_ns;
  outcome.engine_traffic_gb_per_s = (moved_[2] - before[2]) / reading_ns;
  begin_counting(settle_ns + reading_ns);
}

double ScanRun::load(const Scan& scan, double line_ns) {
  const std::uint64_t lines = lines_of(scan);
  const std::uint64_t sampled = std::min(lines, sampled_lines);
  const double begun = now_;
  const std::size_t flow = add_flow(topology_.load_route(scan.execution_node, scan.storage_node), 1,
                                    p_.prefetch_lines, 0);
  stream_ = {flow, sampled, line_ns, begun};
  finish_.assign(sampled, 0.0);
  arrived_.assign(sampled, 0);
  issue_lines();
  while (stream_.consumed < sampled) step();
  return finish_.empty() ? 0.0 : extrapolate(finish_, begun, 1, lines - sampled);
}

double ScanRun::offload(const Scan& scan, double line_ns, bool coherent) {
  const std::uint64_t lines = lines_of(scan);
  const auto block = static_cast<std::uint64_t>(p_.block_kib * 1024 / line_bytes);
  const std::uint64_t blocks = (lines + block - 1) / block;
  const std::uint64_t sampled = std::min(blocks, sampled_blocks);
  const double begun = now_;
  const int hub = topology_.hub_of(scan.execution_node);
  copy_flow_ = add_flow(topology_.copy_route(hub, scan.storage_node, scan.execution_node, coherent),
                        copy_unit, p_.engine_lines, 0);
  std::vector<double> scanned(sampled, 0.0);
  double core_free = begun;
  // Both buffers are empty at first: the copies of two blocks are asked for at once.
  const auto ask = [&] {
    if (copies_.size() == sampled) return;
    core_free += p_.block_overhead_us * 1e3;
    ask_for_copy(std::min(lines - copies_.size() * block, block), core_free);
  };
  ask();
  ask();
  for (std::uint64_t b = 0; b < sampled; ++b) {
    while (copies_[b].arrived < copies_[b].lines) step();
    core_free =
        std::max(core_free, copies_[b].done_at) + static_cast<double>(copies_[b].lines) * line_ns;
    scanned[b] = core_free;
    ask();
  }
  if (scanned.empty()) return 0.0;
  const std::uint64_t rest = blocks == sampled ? 0 : lines - sampled * block;
  return extrapolate(scanned, begun, block, rest);
}

double ScanRun::bandwidth(int execution_node, int storage_node, int workers) {
  for (int w = 0; w < workers; ++w) {
    const std::size_t flow = add_flow(topology_.load_route(execution_node, storage_node),
                                      background_unit, p_.prefetch_lines, 0);
    flows_[flow].counted = 1;
    for (int i = 0; i < static_cast<int>(flows_[flow].window); ++i) {
      push(random_.uniform() * 100.0, flow, issue, 0);
    }
  }
  run_until(settle_ns);
  const double before = moved_[1];
  run_until(settle_ns + reading_ns);
  return (moved_[1] - before) / reading_ns;
}

void ScanRun::arrive(std::size_t flow, std::uint32_t unit) {
  if (flow == stream_.flow) {
    consume(unit);
  } else if (flow == copy_flow_) {
    copied(unit);
  } else {
    Flow& f = flows_[flow];
    moved_[static_cast<std::size_t>(f.counted)] += line_bytes * f.unit;
    double at = now_;
    if (f.pause_ns > 0) {
      at = std::max(now_, f.next_at);
      f.next_at = at + f.pause_ns * (1.0 + pace_jitter * (2.0 * random_.uniform() - 1.0));
    }
    push(at, flow, issue, 0);
  }
}

void ScanRun::ring(std::uint16_t timer) {
  if (timer == wake) {
    stream_.waking = false;
    issue_lines();
  } else {
    start_copies();
  }
}

/// The core asks for lines while it may: so many under way, and none beyond the page's end before
/// it comes near it.
void ScanRun::issue_lines() {
  const auto page = static_cast<std::uint64_t>(p_.prefetch_page_lines);
  const auto ahead = static_cast<std::uint64_t>(p_.lookahead_lines);
  while (stream_.issued < stream_.lines && stream_.under_way < p_.prefetch_lines) {
    const std::uint64_t next = stream_.issued;
    const std::uint64_t page_start = next / page * page;
    if (page_start > 0) {
      // The core must be at this line before it, or its prefetcher, asks for the page.
      const std::uint64_t gate = page_start - std::min(ahead + 1, page_start);
      if (stream_.consumed <= gate) return;
      if (finish_[gate] > now_) {
        if (!stream_.waking) {
          stream_.waking = true;
          push(finish_[gate], stream_.flow, wake, 0);
        }
        return;
      }
    }
    send(stream_.flow, static_cast<std::uint32_t>(next), 1);
    ++stream_.issued;
    ++stream_.under_way;
  }
}

void ScanRun::consume(std::uint32_t line) {
  arrived_[line] = 1;
  --stream_.under_way;
  while (stream_.consumed < stream_.lines && arrived_[stream_.consumed] != 0) {
    stream_.core_free = std::max(stream_.core_free, now_) + stream_.line_ns;
    finish_[stream_.consumed++] = stream_.core_free;
  }
  issue_lines();
}

void ScanRun::ask_for_copy(std::uint64_t lines, double at) {
  const auto number = static_cast<std::uint32_t>(copies_.size());
  copies_.push_back({lines, 0, 0, at});
  push(at, copy_flow_, start, number);
}

/// The engine works on its blocks in the order in which they were asked for.
void ScanRun::start_copies() {
  const auto lines = static_cast<std::uint64_t>(flows_[copy_flow_].unit);
  while (copying_ < copies_.size() && units_under_way_ < flows_[copy_flow_].window) {
    Copy& copy = copies_[copying_];
    if (copy.asked_at > now_) return;
    send(copy_flow_, static_cast<std::uint32_t>(copying_), static_cast<int>(lines));
    ++units_under_way_;
    copy.issued += lines;
    if (copy.issued >= copy.lines) ++copying_;
  }
}

void ScanRun::copied(std::uint32_t number) {
  Copy& copy = copies_[number];
  copy.arrived += static_cast<std::uint64_t>(flows_[copy_flow_].unit);
  if (copy.arrived >= copy.lines) copy.done_at = now_;
  --units_under_way_;
  start_copies();
}

}  // namespace pmoss::simulator
