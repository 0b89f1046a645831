#include "simulator/backlog.hpp"

#include <algorithm>
#include <limits>

namespace pmoss::simulator {

// The queries of each stream in the order of the trace: a counting sort.
void Backlog::prepare(const recording::Trace& trace, const Machine& machine,
                      const Placement& placement) {
  const auto stream_of_slice = [&](std::size_t slice) -> std::size_t {
    if (placement.routing == Routing::any) return 0;
    return static_cast<std::size_t>(placement.routing == Routing::node ? placement.nodes[slice]
                                                                       : placement.cores[slice]);
  };
  const std::size_t cores = machine.node_of_core.size();
  streams_.assign(std::max(cores, machine.socket_of_node.size()), Stream{});
  stream_of_core_.assign(cores, 0);
  for (std::uint32_t core = 0; core < cores; ++core) {
    if (placement.routing == Routing::core) stream_of_core_[core] = core;
    if (placement.routing == Routing::node) {
      stream_of_core_[core] = static_cast<std::uint32_t>(machine.node_of_core[core]);
    }
  }
  const std::size_t n = trace.size();
  for (std::size_t i = 0; i < n; ++i) ++streams_[stream_of_slice(trace.queries[i].slice)].end;
  std::size_t begin = 0;
  for (Stream& stream : streams_) {
    stream.begin = stream.at = begin;
    begin = stream.end += begin;
  }
  queries_.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    Stream& stream = streams_[stream_of_slice(trace.queries[i].slice)];
    queries_[stream.at++] = static_cast<std::uint32_t>(i);
  }
  for (Stream& stream : streams_) stream.at = stream.begin;
}

std::uint32_t Backlog::next(const recording::Trace& trace, std::size_t core) noexcept {
  Stream& stream = streams_[stream_of_core_[core]];
  if (stream.begin == stream.end) return nothing;
  const std::uint32_t query = queries_[stream.at];
  stream.at = stream.at + 1 == stream.end ? stream.begin : stream.at + 1;
  // The host's processor cannot prefetch as many streams as there are cores.
  if (stream.at + 32 < stream.end) __builtin_prefetch(&queries_[stream.at + 32]);
  if (stream.at + 3 < stream.end) {
    const recording::TracedQuery* const later = &trace.queries[queries_[stream.at + 3]];
    __builtin_prefetch(later);
    __builtin_prefetch(later + 1);  // where its touches end
    const recording::TracedQuery& next = trace.queries[queries_[stream.at + 1]];
    __builtin_prefetch(trace.touches.data() + next.first_touch);
    __builtin_prefetch(trace.page_touches.data() + next.first_page);
  }
  return query;
}

void Backlog::forget_served() noexcept {
  for (Stream& stream : streams_) stream.served = 0;
}

double Backlog::served_mix() const noexcept {
  double least = std::numeric_limits<double>::infinity();
  for (const Stream& stream : streams_) {
    if (stream.begin == stream.end) continue;
    const double share =
        static_cast<double>(stream.end - stream.begin) / static_cast<double>(queries_.size());
    least = std::min(least, static_cast<double>(stream.served) / share);
  }
  return least;
}

}  // namespace pmoss::simulator
