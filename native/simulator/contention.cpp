#include "simulator/contention.hpp"

#include <algorithm>

namespace pmoss::simulator {
namespace {

// Share of the last epoch in the smoothed use.
constexpr double smoothing = 0.25;
// How fast the latency beyond the curve follows demand that a resource cannot meet. Latency that is
// in inverse proportion to throughput is stable below 1; a sampled epoch's noise asks for less.
constexpr double integral_gain = 0.15;
constexpr double max_excess = 1000.0;
// Interference that demand all bandwidth still leave a share to others.
constexpr double max_co_tenant_use = 0.98;

double share_of(const std::vector<double>& taken, std::size_t i, double bandwidth) {
  return taken.empty() || bandwidth <= 0.0 ? 0.0
                                           : std::min(taken[i] / bandwidth, max_co_tenant_use);
}

}  // namespace

double Contention::Resource::latency_at(double use, const LoadedLatency& curve) {
  use += co_tenant_use;
  smooth_use += smoothing * (use - smooth_use);
  // The error is bounded, so that the burst of one epoch does not shut a resource.
  excess *= 1.0 + integral_gain * std::clamp(use - 1.0, -1.0, 1.0);
  excess = std::clamp(excess, 1.0, max_excess);
  return curve.at(std::min(smooth_use, 1.0)) * excess;
}

Contention::Contention(const Machine& machine)
    : nodes_(static_cast<std::size_t>(machine.nodes())),
      sockets_(static_cast<std::size_t>(machine.sockets())),
      machine_(machine),
      dram_curve_(machine.dram_curve),
      link_curve_(machine.link_curve),
      routes_(machine),
      socket_of_node_(machine.socket_of_node.begin(), machine.socket_of_node.end()),
      memories_(nodes_),
      links_(sockets_ * sockets_),
      memory_latency_(nodes_),
      link_latency_(sockets_ * sockets_),
      route_latency_(sockets_ * sockets_, 1.0),
      multiplier_(nodes_ * nodes_),
      dram_ns_(nodes_ * nodes_),
      epoch_flow_(sockets_ * sockets_),
      crossed_(sockets_ * sockets_) {}

void Contention::reset(const Interference& interference) {
  traffic_.read.assign(nodes_, 0);
  traffic_.written.assign(nodes_, 0);
  traffic_.flow.assign(sockets_ * sockets_, 0);
  before_ = traffic_;
  for (std::size_t node = 0; node < nodes_; ++node) {
    memories_[node] = {};
    memories_[node].co_tenant_use =
        share_of(interference.dram_gb_per_s, node, machine_.dram_gb_per_s[node]);
    memory_latency_[node] = dram_curve_.at(memories_[node].co_tenant_use);
  }
  for (std::size_t link = 0; link < links_.size(); ++link) {
    links_[link] = {};
    links_[link].co_tenant_use =
        share_of(interference.link_gb_per_s, link, machine_.link_gb_per_s[link]);
    link_latency_[link] = link_curve_.at(links_[link].co_tenant_use);
  }
  update_multipliers();
}

void Contention::close_epoch(double ns, double bytes_per_line) {
  const double gb_per_s = bytes_per_line / ns;
  for (std::size_t node = 0; node < nodes_; ++node) {
    const auto read = static_cast<double>(traffic_.read[node] - before_.read[node]);
    const auto written = static_cast<double>(traffic_.written[node] - before_.written[node]);
    const double use = gb_per_s * (read / machine_.dram_gb_per_s[node] +
                                   written / machine_.dram_write_gb_per_s[node]);
    memory_latency_[node] = memories_[node].latency_at(use, dram_curve_);
  }
  for (std::size_t i = 0; i < epoch_flow_.size(); ++i) {
    epoch_flow_[i] = static_cast<double>(traffic_.flow[i] - before_.flow[i]);
  }
  route(epoch_flow_, crossed_);
  for (std::size_t link = 0; link < links_.size(); ++link) {
    if (machine_.link_gb_per_s[link] <= 0.0) continue;
    const double use = gb_per_s * crossed_[link] / machine_.link_gb_per_s[link];
    link_latency_[link] = links_[link].latency_at(use, link_curve_);
  }
  before_ = traffic_;
  update_multipliers();
}

void Contention::route(const std::vector<double>& flow, std::vector<double>& crossed) const {
  crossed.assign(sockets_ * sockets_, 0.0);
  for (std::size_t from = 0; from < sockets_; ++from) {
    for (std::size_t to = 0; to < sockets_; ++to) {
      for (const std::uint32_t link : routes_.between(from, to)) {
        crossed[link] += flow[from * sockets_ + to];
      }
    }
  }
}

void Contention::update_multipliers() {
  for (std::size_t from = 0; from < sockets_; ++from) {
    for (std::size_t to = 0; to < sockets_; ++to) {
      double factor = 1.0;
      for (const std::uint32_t link : routes_.between(from, to)) factor *= link_latency_[link];
      route_latency_[from * sockets_ + to] = factor;
    }
  }
  for (std::size_t core_node = 0; core_node < nodes_; ++core_node) {
    for (std::size_t memory_node = 0; memory_node < nodes_; ++memory_node) {
      const std::size_t i = core_node * nodes_ + memory_node;
      multiplier_[i] = memory_latency_[memory_node] *
                       link_multiplier(socket_of_node_[memory_node], socket_of_node_[core_node]);
      dram_ns_[i] = machine_.dram_ns[i] * multiplier_[i];
    }
  }
}

}  // namespace pmoss::simulator
