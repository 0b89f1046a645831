#include "recording/recording_size.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "index/arena.hpp"
#include "numa/available_memory.hpp"

namespace pmoss::recording {
namespace {

constexpr double page_bytes = 4096.0;
constexpr double huge_page_bytes = SliceArena::chunk_bytes;

}  // namespace

bool suits_huge_pages(double index_bytes, std::uint32_t slices) {
  return index_bytes / slices >= huge_page_bytes / 2;
}

void check(const RecordingSize& size, std::uint64_t records, std::uint32_t slices,
           const TraceOptions& options) {
  const double lines = size.index_bytes / 64.0 / options.line_sampling;
  if (lines > Touch::max_lines) {
    const double enough = std::ceil(size.index_bytes / 64.0 / Touch::max_lines);
    throw std::invalid_argument(
        "line_sampling is " + std::to_string(options.line_sampling) + ", which leaves " +
        std::to_string(static_cast<std::uint64_t>(lines)) + " lines of " + std::to_string(records) +
        " records; a trace can tell apart " + std::to_string(Touch::max_lines) +
        ": set line_sampling to at least " + std::to_string(static_cast<std::uint64_t>(enough)));
  }
  // The last page of every slice may be almost empty.
  const double paging =
      (suits_huge_pages(size.index_bytes, slices) ? huge_page_bytes : page_bytes) * slices;
  const double per_query = sizeof(TracedQuery) +
                           size.touches * sizeof(Touch) / options.line_sampling +
                           size.pages * sizeof(std::uint32_t) / options.page_sampling;
  const double needed = size.source_bytes +
                        std::max(size.sorting_bytes, size.index_bytes + paging) + lines * 16.0 +
                        static_cast<double>(options.queries) * per_query;
  numa::require_memory(needed,
                       "recording " + std::to_string(options.queries) + " queries on " +
                           std::to_string(records) + " records",
                       "lower records or queries, or raise line_sampling");
}

}  // namespace pmoss::recording
