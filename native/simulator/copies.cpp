#include "simulator/copies.hpp"

#include <algorithm>
#include <cmath>

namespace pmoss::simulator {
namespace {

constexpr double line_bytes = 64.0;

}  // namespace

std::vector<Copies::Arrived> Copies::advance(double ns, Contention& contention) {
  std::vector<Arrived> arrived;
  while (!queue_.empty() && ns > 0.0) {
    Copy& copy = queue_.front();
    const auto from = static_cast<std::size_t>(copy.source);
    const auto to = static_cast<std::size_t>(copy.target);
    const double line_ns = std::max(contention.dram_ns(to, from), contention.dram_ns(to, to));
    // GB/s are bytes per ns.
    const double rate = std::min(line_bytes * machine_->mlp_streaming / line_ns, most_);
    const double spent = std::min(ns, copy.bytes / rate);
    const double bytes = spent < ns ? copy.bytes : rate * ns;
    ns -= spent;
    copied_ += bytes;
    copy.bytes -= bytes;
    const double lines = (carried_ + bytes) / (line_bytes * line_sampling_);
    contention.copy(from, to, static_cast<std::uint64_t>(lines));
    carried_ = (lines - std::floor(lines)) * line_bytes * line_sampling_;
    if (copy.bytes > 0.0) break;
    arrived.push_back({copy.slice, copy.target});
    queue_.pop_front();
  }
  return arrived;
}

}  // namespace pmoss::simulator
