#include "simulator/line_queues.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pmoss::simulator {
namespace {

constexpr double line_bytes = 64.0;
/// How often the use of a memory is looked at for its loaded latency.
constexpr double memory_epoch_ns = 2'000.0;

}  // namespace

LineQueues::LineQueues(const BladeTopology& topology)
    : topology_(topology),
      p_(topology.parameters()),
      curve_(topology.machine().dram_curve),
      resources_(topology.resources()),
      epoch_end_(memory_epoch_ns),
      memory_factor_(static_cast<std::size_t>(topology.nodes()), 1.0),
      memory_bytes_(static_cast<std::size_t>(topology.nodes()), 0.0) {
  heap_.reserve(1024);
}

std::size_t LineQueues::add_flow(BladeTopology::Route route, int unit, double lines_under_way,
                                 double gb_per_s) {
  const double window = std::max(1.0, std::floor(lines_under_way / unit));
  const double pause = gb_per_s > 0 ? unit * line_bytes / gb_per_s : 0.0;
  flows_.push_back({std::move(route), unit, window, pause, now_});
  return flows_.size() - 1;
}

void LineQueues::push(double at, std::size_t flow, std::uint16_t hop, std::uint32_t unit) {
  heap_.push_back({at, made_++, unit, static_cast<std::uint16_t>(flow), hop});
  std::push_heap(heap_.begin(), heap_.end());
}

void LineQueues::run_until(double end) {
  while (!heap_.empty() && heap_.front().at < end) step();
}

void LineQueues::step() {
  std::pop_heap(heap_.begin(), heap_.end());
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = event.at;
  if (now_ >= epoch_end_) close_epoch();
  if (event.hop == wake || event.hop == start) {
    ring(event.hop);
  } else if (event.hop == issue) {
    send(event.flow, 0, flows_[event.flow].unit);
  } else {
    pass(event);
  }
}

void LineQueues::send(std::size_t flow, std::uint32_t unit, int lines) {
  const Flow& f = flows_[flow];
  const std::size_t memory = f.route.front().resource;
  memory_bytes_[memory] += line_bytes * lines;
  // The request takes room on the links the other way round, and no time of its own.
  for (const BladeTopology::Hop& hop : f.route) {
    if (!hop.crosses_link) continue;
    Resource& back = resources_[hop.reverse];
    const double bytes = p_.request_bytes * lines;
    const double ns = hop.ns_per_line * bytes / (line_bytes + p_.line_overhead_bytes);
    back.free_at = std::max(back.free_at, now_) + ns;
    back.overhead += bytes;
  }
  const int node = static_cast<int>(memory);
  const double idle = topology_.latency_ns(node, node) - f.route.front().ns_per_line;
  push(now_ + idle * memory_factor_[memory], flow, 0, unit);
}

/// A unit enters the next queue on its way.
void LineQueues::pass(const Event& event) {
  const Flow& f = flows_[event.flow];
  if (event.hop == f.route.size()) {
    arrive(event.flow, event.unit);
    return;
  }
  const BladeTopology::Hop& hop = f.route[event.hop];
  Resource& r = resources_[hop.resource];
  r.free_at = std::max(r.free_at, now_) + hop.ns_per_line * f.unit;
  if (hop.crosses_link) {
    r.payload += line_bytes * f.unit;
    r.overhead += p_.line_overhead_bytes * f.unit;
  }
  push(r.free_at + hop.after_ns, event.flow, static_cast<std::uint16_t>(event.hop + 1), event.unit);
}

/// The use of each memory over the epoch sets its latency in the next one.
void LineQueues::close_epoch() {
  const double ns = now_ - epoch_end_ + memory_epoch_ns;
  for (std::size_t n = 0; n < memory_bytes_.size(); ++n) {
    const double use = memory_bytes_[n] / ns / topology_.machine().dram_gb_per_s[n];
    // Beyond the bandwidth the queue itself makes lines wait.
    memory_factor_[n] += 0.5 * (curve_.at(std::min(use, 0.95)) - memory_factor_[n]);
    memory_bytes_[n] = 0;
  }
  epoch_end_ = now_ + memory_epoch_ns;
}

void LineQueues::begin_counting(double now) {
  now_ = now;
  for (Resource& r : resources_) r.payload = r.overhead = 0;
}

void LineQueues::traffic(ScanOutcome& outcome, double elapsed_ns) const {
  outcome.links.resize(topology_.link_names().size());
  if (elapsed_ns <= 0) return;
  for (std::size_t i = 0; i < outcome.links.size(); ++i) {
    const Resource& link = resources_[topology_.first_link() + i];
    outcome.links[i] = {link.payload / elapsed_ns, link.overhead / elapsed_ns};
  }
}

}  // namespace pmoss::simulator
