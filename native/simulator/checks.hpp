// Checks of a simulated server's arguments, before anything changes.
#pragma once

#include <span>

#include "machine/machine.hpp"
#include "machine/placement.hpp"
#include "recording/trace.hpp"
#include "simulator/server.hpp"

namespace pmoss::simulator {

// All throw std::invalid_argument that names the value and what would be right.

void check(const ServerOptions& options);

/// Whether the trace has queries, and names only slices, lines and pages that it has.
void check(const recording::Trace& trace);

/// Whether the machine's workers can run every slice of the trace.
void check(const Placement& placement, const recording::Trace& trace, const Machine& machine);

/// Whether each slice moves once, to a worker.
void check(std::span<const Move> moves, const recording::Trace& trace, const Machine& machine);

}  // namespace pmoss::simulator
