// Turns logs of touched addresses into a trace: numbers lines and pages, samples and counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "index/arena.hpp"
#include "index/tracer.hpp"
#include "recording/trace.hpp"

namespace pmoss::recording {

/// Throws std::invalid_argument, naming the value and what is right.
void validate(const TraceOptions& options, std::uint32_t slices);

/// What the log does not know of a query.
struct QueryFacts {
  std::uint32_t slice;  ///< whose core runs it
  std::uint8_t kind;    ///< Operation::Kind
  double instructions;
  double branch_misses;
};

/// Lines are numbered within the chunks of their slice's arena, in the order in which the arena
/// took them. So nothing depends on where the system puts a chunk. Lines of the root table, which
/// belong to several slices, count to the first of these.
class TraceBuilder {
 public:
  using ArenaOf = std::function<const SliceArena&(std::uint32_t)>;

  /// `root_table` starts at a cache line, has one word per slice and lies outside of the arenas.
  /// Throws std::invalid_argument if an option or the number of slices is impossible.
  TraceBuilder(std::uint32_t slices, const TraceOptions& options, ArenaOf arena_of,
               ChunkView root_table);

  /// Appends a query. Throws std::invalid_argument if it touches more lines than a trace can say.
  void add(const TouchLog& log, const QueryFacts& facts);

  /// The trace of the queries added. The builder must not be used any more.
  Trace finish();

 private:
  static constexpr std::size_t lines_per_chunk = SliceArena::chunk_bytes / 64;
  static constexpr std::size_t lines_per_page = 4096 / 64;
  static constexpr std::size_t pages_per_chunk = lines_per_chunk / lines_per_page;
  static constexpr std::uint32_t no_id = ~std::uint32_t{0};

  /// A chunk of an arena, or the root table.
  struct Region {
    std::uint64_t first_line;  // address / 64
    std::uint64_t number;      // the same in every process: of slice and chunk
    std::uint32_t slice;
    std::uint32_t chunk;
    std::vector<std::uint32_t> line_ids;
    std::vector<std::uint32_t> page_ids;
  };

  void add_region(std::uint64_t first_line, std::uint32_t owner, std::uint32_t chunk);
  void find_new_chunks(std::uint32_t slice);
  std::uint32_t region_of(std::uint64_t line);
  std::uint16_t slice_at(const Region& region, std::size_t line) const;
  void touch_line(std::uint32_t region, std::size_t line, TouchLog::Entry entry);
  void touch_page(std::uint32_t region, std::size_t page);

  ArenaOf arena_of_;
  std::uint64_t table_line_;
  std::uint64_t table_lines_;
  std::vector<Region> regions_;                                 // the root table first
  std::unordered_map<std::uint64_t, std::uint32_t> region_at_;  // by address / chunk_bytes
  std::uint64_t last_block_ = ~std::uint64_t{0};                // of region_at_
  std::uint32_t last_region_ = 0;
  std::vector<std::uint32_t> chunks_;  // known per slice
  Trace trace_;
};

}  // namespace pmoss::recording
