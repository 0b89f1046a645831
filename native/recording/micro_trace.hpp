// Traces made by hand, whose execution has a known answer: what a memory benchmark would measure.
#pragma once

#include <cstdint>
#include <memory>

#include "recording/trace.hpp"

namespace pmoss::recording {

// Every line is recorded, queries take no instructions, query i is of slice i mod slices, and no
// page is touched unless that is said: translation then costs nothing, as with huge pages. The
// slices lie one after the other in memory, each in 2 MiB pages of its own. All functions throw
// std::invalid_argument for sizes that a trace cannot hold, before anything is allocated.

/// Each query waits for one line of its slice. The lines come round in a shuffled order, so that
/// those beyond a cache's capacity always miss it; in the first round memory serves them all.
/// Time per query = latency / mlp_dependent.
std::shared_ptr<Trace> pointer_chase(std::uint32_t slices, std::uint32_t lines_per_slice,
                                     std::uint64_t queries);

/// Each query streams the next `lines_per_query` lines of its slice, round after round. A share of
/// the lines is written each time (and read, to own them), spread evenly.
std::shared_ptr<Trace> streaming(std::uint32_t slices, std::uint32_t lines_per_slice,
                                 std::uint32_t lines_per_query, std::uint64_t queries,
                                 double written_share = 0.0);

/// Queries of two slices write the lines of the first one in turn: once the lines have come round,
/// each touch finds its line modified by the other slice's core. The lines must outnumber the
/// queries in flight, so that no core meets its own. Time per query = latency / mlp_dependent.
std::shared_ptr<Trace> modified_lines(std::uint32_t lines, std::uint64_t queries);

/// Each query touches one page of its slice, in a shuffled order, and no line: the time per query
/// is that of the translation.
std::shared_ptr<Trace> page_chase(std::uint32_t slices, std::uint32_t pages_per_slice,
                                  std::uint64_t queries);

}  // namespace pmoss::recording
