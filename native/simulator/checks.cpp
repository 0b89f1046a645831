#include "simulator/checks.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace pmoss::simulator {
namespace {

template <typename T>
[[noreturn]] void refuse(const std::string& name, const T& value, const std::string& right) {
  throw std::invalid_argument(name + " = " + std::to_string(value) + ": must be " + right);
}

void require_share(const std::string& name, double value) {
  if (!(value >= 0.0 && value < 1.0)) refuse(name, value, "at least 0 and below 1");
}

bool is_worker(const Machine& machine, std::int32_t core) {
  return core >= 0 && core < machine.cores() &&
         machine.is_worker[static_cast<std::size_t>(core)] != 0;
}

bool has_workers(const Machine& machine, std::int32_t node) {
  for (std::int32_t core = 0; core < machine.cores(); ++core) {
    if (is_worker(machine, core) && machine.node_of_core[static_cast<std::size_t>(core)] == node) {
      return true;
    }
  }
  return false;
}

}  // namespace

void check(const ServerOptions& options) {
  require_share("warmup_share", options.warmup_share);
  require_share("stay_share", options.balancing.stay_share);
  if (!(options.epoch_us > 0.0) || !std::isfinite(options.epoch_us)) {
    refuse("epoch_us", options.epoch_us, "positive");
  }
  if (!(options.balancing.hint_faults_per_us >= 0.0)) {
    refuse("hint_faults_per_us", options.balancing.hint_faults_per_us, "at least 0");
  }
  if (!(options.balancing.hint_fault_ns >= 0.0)) {
    refuse("hint_fault_ns", options.balancing.hint_fault_ns, "at least 0");
  }
}

void check(const recording::Trace& trace) {
  constexpr std::size_t most_queries = std::numeric_limits<std::uint32_t>::max() - 1;
  if (trace.size() == 0) refuse("queries of the trace", 0, "at least 1");
  if (trace.size() > most_queries) {
    refuse("queries of the trace", trace.size(), "below 2^32 - 1");
  }
  if (trace.slices == 0) refuse("slices of the trace", 0, "at least 1");
  if (trace.line_sampling == 0) refuse("line_sampling", 0, "at least 1");
  if (trace.page_sampling == 0) refuse("page_sampling", 0, "at least 1");
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (trace.queries[i].slice >= trace.slices) {
      refuse("slice of query " + std::to_string(i), trace.queries[i].slice,
             "below " + std::to_string(trace.slices));
    }
  }
  for (const recording::Touch& touch : trace.touches) {
    if (touch.line() >= trace.lines()) {
      refuse("a touched line", touch.line(), "below " + std::to_string(trace.lines()));
    }
  }
  for (const std::uint32_t page : trace.page_touches) {
    if (page >= trace.pages()) {
      refuse("a touched page", page, "below " + std::to_string(trace.pages()));
    }
  }
}

void check(const Placement& placement, const recording::Trace& trace, const Machine& machine) {
  require_modelled(placement.data);
  if (placement.nodes.size() != trace.slices) {
    refuse("length of nodes", placement.nodes.size(), std::to_string(trace.slices));
  }
  for (const std::int32_t node : placement.nodes) {
    if (node < 0 || node >= machine.nodes()) {
      refuse("node of a slice", node, "0 to " + std::to_string(machine.nodes() - 1));
    }
    if (placement.routing == Routing::node && !has_workers(machine, node)) {
      refuse("node of a slice", node, "a node with workers");
    }
  }
  if (placement.routing != Routing::core) return;
  if (placement.cores.size() != trace.slices) {
    refuse("length of cores", placement.cores.size(), std::to_string(trace.slices));
  }
  for (const std::int32_t core : placement.cores) {
    if (!is_worker(machine, core)) refuse("core of a slice", core, "a worker core of the machine");
  }
}

void check(std::span<const Move> moves, const recording::Trace& trace, const Machine& machine) {
  std::vector<bool> moved(trace.slices, false);
  for (const Move& move : moves) {
    if (move.slice < 0 || static_cast<std::uint32_t>(move.slice) >= trace.slices) {
      refuse("slice that moves", move.slice, "0 to " + std::to_string(trace.slices - 1));
    }
    if (moved[static_cast<std::size_t>(move.slice)]) {
      refuse("slice that moves", move.slice, "another one: a slice moves once");
    }
    moved[static_cast<std::size_t>(move.slice)] = true;
    if (!is_worker(machine, move.core)) {
      refuse("core of a slice", move.core, "a worker core of the machine");
    }
    if (!(move.bytes >= 0.0)) refuse("bytes of a slice", move.bytes, "at least 0");
  }
}

}  // namespace pmoss::simulator
