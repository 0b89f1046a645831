// What saturated workers have to do: the queries of the trace that are routed to each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine/machine.hpp"
#include "machine/placement.hpp"
#include "recording/trace.hpp"

namespace pmoss::simulator {

/// One stream of queries for all workers, for those of each node, or for each worker, as queries
/// are routed. A stream starts again when it has ended, so that a worker of few queries runs them
/// several times. It then touches less of its slices than fresh queries would in the same time.
class Backlog {
 public:
  static constexpr std::uint32_t nothing = ~std::uint32_t{0};

  void prepare(const recording::Trace& trace, const Machine& machine, const Placement& placement);

  /// The next query of a worker of that trace, or `nothing` if none is ever routed to it.
  std::uint32_t next(const recording::Trace& trace, std::size_t core) noexcept;

  /// What next() would give.
  std::uint32_t peek(std::size_t core) const noexcept {
    const Stream& stream = streams_[stream_of_core_[core]];
    return stream.begin == stream.end ? nothing : queries_[stream.at];
  }

  /// A worker has served a query of its stream.
  void served(std::size_t core) noexcept { ++streams_[stream_of_core_[core]].served; }
  void forget_served() noexcept;
  /// Queries of the trace's own mix that were served since forget_served(): the least, over the
  /// streams, of what was served over the stream's share of the trace.
  double served_mix() const noexcept;

 private:
  struct Stream {
    std::size_t begin = 0, end = 0, at = 0;  // in queries_
    std::uint64_t served = 0;
  };

  std::vector<Stream> streams_;
  std::vector<std::uint32_t> queries_;
  std::vector<std::uint32_t> stream_of_core_;
};

}  // namespace pmoss::simulator
