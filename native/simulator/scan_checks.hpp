// Checks of the arguments of simulated scans, before anything changes.
#pragma once

#include <cstdint>
#include <span>

#include "machine/machine.hpp"
#include "simulator/scan_types.hpp"

namespace pmoss::simulator {

/// Lines that the engine copies as one event, where single ones do not matter.
inline constexpr int copy_unit = 8;

// All throw std::invalid_argument that names the value and what would be right.

void check(const OffloadParameters& parameters, const Machine& machine);
/// `nodes`: of the machine.
void check(const Scan& scan, int nodes);
void check_batch(std::span<const Scan> scans, std::span<const std::uint8_t> paths,
                 std::size_t seeds, std::size_t outcomes, int threads, int nodes);
void check_workers(int workers);

}  // namespace pmoss::simulator
