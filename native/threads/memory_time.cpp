#include "threads/memory_time.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace pmoss::threads {
namespace {

constexpr double line_bytes = 64.0;
constexpr int most_rounds = 400;
constexpr double tolerance = 1e-6;
// Over what change of use the slope of a curve is taken.
constexpr double step = 1e-3;

}  // namespace

// A Newton step, for demand that falls in inverse proportion to latency. It falls less where
// threads compute, which makes the step a short one. Up to the curve's top, demand and latency must
// meet on the curve. Beyond it the latency grows until the resource can carry the demand.
bool MemoryTime::Resource::settle(const LoadedLatency& curve) {
  const double top = curve.at(1.0);
  const double use = std::min(demand, 1.0);
  const double on_curve_ns = curve.at(use);
  const double slope =
      (on_curve_ns - curve.at(std::max(use - step, 0.0))) / step * use / on_curve_ns;
  const double on_curve = latency + (on_curve_ns - latency) / (1.0 + slope);
  const double beyond = latency * std::clamp(demand, 0.25, 4.0);
  const double wanted = demand < 1.0 && latency <= top ? on_curve : std::max(on_curve, beyond);
  const double change = wanted / latency - 1.0;
  damping = change * last_change < 0.0 ? 0.5 * damping : std::min(1.0, 1.3 * damping);
  last_change = change;
  latency *= 1.0 + damping * change;
  return std::abs(change) <= tolerance;
}

MemoryTime::MemoryTime(const Machine& machine, const SlowMemory& slow, const Program& program,
                       const Kernel& kernel)
    : machine_(machine),
      slow_(slow),
      program_(program),
      kernel_(kernel),
      memory_curve_(machine.dram_curve),
      link_curve_(machine.link_curve),
      routes_(machine) {
  const auto nodes = static_cast<std::size_t>(machine_.nodes());
  slow_node_.assign(nodes, true);
  for (const int node : machine_.node_of_core) slow_node_[static_cast<std::size_t>(node)] = false;
  near_.assign(nodes, 0);
  for (std::size_t home = 0; home < nodes; ++home) {
    int best = -1;
    for (int node = 0; node < machine_.nodes(); ++node) {
      if (slow_node_[static_cast<std::size_t>(node)]) continue;
      const int to = static_cast<int>(home);
      if (best < 0 || machine_.dram_latency(node, to) < machine_.dram_latency(best, to))
        best = node;
    }
    near_[home] = best;
  }
  memories_.assign(nodes, {});
  paths_.assign(nodes, {});
  remote_writers_.assign(nodes, 0.0);
  links_.assign(routes_.links(), {});
}

double MemoryTime::blocks(double bytes, int home) const noexcept {
  const double granule = is_slow(home) ? slow_.granule_bytes : line_bytes;
  return std::ceil(bytes / granule) * granule;
}

double MemoryTime::read_bytes(int home) const noexcept {
  return blocks(program_.value_bytes, home) +
         program_.index_lines * (is_slow(home) ? slow_.granule_bytes : line_bytes);
}

double MemoryTime::write_bytes(int home) const noexcept {
  return blocks(program_.value_bytes, home);
}

void MemoryTime::fill(Kind& kind) const {
  const auto home = static_cast<std::size_t>(kind.home);
  const bool remote = is_remote(kind.cpu_node, kind.home);
  const bool slow = slow_node_[home];
  double load = memories_[home].latency;
  if (remote) {
    for (const std::uint32_t link : links_between(kind.home, kind.cpu_node)) {
      load *= links_[link].latency;
    }
  }
  const double idle = machine_.dram_latency(kind.cpu_node, kind.home);
  const double read_line = slow ? slow_.read_ns * (remote ? slow_.remote_read_ratio : 1.0) : idle;
  const double write_line =
      slow ? slow_.write_ns * (remote ? slow_.remote_write_ratio : 1.0) : idle;
  const double path = slow && remote ? paths_[home].latency : 1.0;
  kind.line_ns = read_line * load * path;
  kind.index_ns = idle * load * path;

  const double writes = program_.write_share, reads = 1.0 - writes;
  const double streamed = 1.0 / (line_bytes * machine_.mlp_streaming);
  const double index = program_.index_lines * kind.index_ns / machine_.mlp_dependent;
  kind.read_ns = reads * program_.value_bytes * kind.line_ns * streamed + index;
  kind.write_ns = writes * program_.value_bytes * write_line * load * streamed;

  const double speed = kind.sibling ? machine_.smt_share : 1.0;
  const double cycles = reads * program_.read_cycles + writes * program_.write_cycles;
  const double faults = reads * program_.read_faults + writes * program_.write_faults;
  const double ordinary = program_.ordinary_lines *
                          machine_.dram_latency(kind.cpu_node, kind.cpu_node) /
                          machine_.mlp_streaming;
  kind.user_ns = cycles / (machine_.clock_ghz * speed) + ordinary;
  kind.kernel_ns = faults * program_.fault_ns / speed;
  // The power that stalled cores leave raises the clock. The counters show it, but work is done at
  // the base clock. A core that got faster by waiting would have two steady states.
  const double turbo = std::max(kernel_.turbo_ghz, machine_.clock_ghz);
  kind.ghz = machine_.clock_ghz + (turbo - machine_.clock_ghz) * kind.stalled();
}

void MemoryTime::add_demand(const Kind& kind) {
  const auto home = static_cast<std::size_t>(kind.home);
  const bool slow = slow_node_[home];
  const bool remote = is_remote(kind.cpu_node, kind.home);
  const double per_ns = kind.rate() * kind.threads * 1e-9;
  const double writes = program_.write_share, reads = 1.0 - writes;
  const double index = program_.index_lines * (slow ? slow_.granule_bytes : line_bytes);
  const double read = per_ns * (reads * blocks(program_.value_bytes, kind.home) + index);
  const double written = per_ns * writes * blocks(program_.value_bytes, kind.home);
  double occupancy = 1.0;
  if (slow && remote) {
    const double crowd = std::max(0.0, remote_writers_[home] - slow_.remote_writers);
    occupancy = 1.0 / slow_.remote_write_share +
                (slow_.remote_writer_cost + slow_.remote_mixed_cost * reads) * crowd;
    paths_[home].demand += read / (slow_.remote_read_share * machine_.dram_gb_per_s[home]);
  }
  memories_[home].demand += read / machine_.dram_gb_per_s[home] +
                            written * occupancy / machine_.dram_write_gb_per_s[home];
  if (!remote) return;
  for (const std::uint32_t link : links_between(kind.home, kind.cpu_node)) {
    links_[link].demand += read / machine_.link_gb_per_s[link];
  }
  for (const std::uint32_t link : links_between(kind.cpu_node, kind.home)) {
    links_[link].demand += written / machine_.link_gb_per_s[link];
  }
}

void MemoryTime::solve(std::vector<Kind>& kinds) {
  const auto each = [this](auto&& act) {
    for (auto* group : {&memories_, &paths_, &links_}) {
      for (Resource& resource : *group) act(resource, group);
    }
  };
  each([](Resource& resource, auto*) { resource.damping = 1.0; });
  for (int round = 0; round < most_rounds; ++round) {
    each([](Resource& resource, auto*) { resource.demand = 0.0; });
    std::fill(remote_writers_.begin(), remote_writers_.end(), 0.0);
    for (Kind& kind : kinds) {
      fill(kind);
      if (!is_remote(kind.cpu_node, kind.home)) continue;
      remote_writers_[static_cast<std::size_t>(kind.home)] +=
          kind.threads / kind.on_cpu * kind.write_ns / kind.request_ns();
    }
    for (const Kind& kind : kinds) add_demand(kind);
    bool settled = true;
    each([&](Resource& resource, auto* group) {
      const LoadedLatency& curve = group == &links_ ? link_curve_ : memory_curve_;
      settled = resource.settle(curve) && settled;
    });
    if (settled) break;
  }
  for (Kind& kind : kinds) fill(kind);
}

}  // namespace pmoss::threads
