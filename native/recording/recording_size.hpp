// What a recording takes, and whether it can be made.
#pragma once

#include <cstdint>

#include "recording/trace.hpp"

namespace pmoss::recording {

struct RecordingSize {
  double index_bytes;     ///< of the nodes, once all queries have run
  double source_bytes;    ///< of what the index is built from, kept beside the nodes
  double sorting_bytes;   ///< needed before there are nodes, and no more then
  double touches, pages;  ///< per query: more than the usual one makes
};

/// Whether a slice of the index fills enough of a huge page to ask for these.
bool suits_huge_pages(double index_bytes, std::uint32_t slices);

/// Throws std::invalid_argument, with a way out, for more lines than a trace can distinguish or
/// more memory than there is.
void check(const RecordingSize& size, std::uint64_t records, std::uint32_t slices,
           const TraceOptions& options);

}  // namespace pmoss::recording
