#include "recording/trace_builder.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "workload/random.hpp"

namespace pmoss::recording {
namespace {

constexpr std::size_t roots_per_line = 8;
constexpr std::uint32_t root_table = 0;  // its region

/// Whether the hash of a number falls into one of `sampling` equal parts. What is chosen for a
/// sampling is also chosen for any denser one.
bool is_sampled(std::uint64_t number, std::uint32_t sampling) {
  return scale64(mix64(number), sampling) == 0;
}

/// The place of the number of a line or page of a region, which are used from the first one on.
std::uint32_t& id_at(std::vector<std::uint32_t>& ids, std::size_t place, std::uint32_t no_id) {
  if (place >= ids.size()) ids.resize(std::max(place + 1, 2 * ids.size()), no_id);
  return ids[place];
}

std::uint16_t checked_count(std::size_t count, std::size_t query) {
  if (count > std::numeric_limits<std::uint16_t>::max()) {
    throw std::invalid_argument("query " + std::to_string(query) + " touches " +
                                std::to_string(count) +
                                " cache lines; a trace can count 65535 of each kind: make the "
                                "scans shorter or the slices fewer");
  }
  return static_cast<std::uint16_t>(count);
}

void require(bool right, const char* name, std::uint64_t value, const char* rule) {
  if (right) return;
  throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + "; it must " +
                              rule);
}

}  // namespace

void validate(const TraceOptions& options, std::uint32_t slices) {
  require(slices >= 1 && slices <= 65536, "slices", slices, "lie in 1 .. 65536");
  require(options.queries >= 1, "queries", options.queries, "be at least 1");
  require(options.line_sampling >= 1, "line_sampling", options.line_sampling, "be at least 1");
  require(options.page_sampling >= 1, "page_sampling", options.page_sampling, "be at least 1");
}

TraceBuilder::TraceBuilder(std::uint32_t slices, const TraceOptions& options, ArenaOf arena_of,
                           ChunkView root_table)
    : arena_of_(std::move(arena_of)),
      table_line_(root_table.address / 64),
      table_lines_((root_table.bytes + 63) / 64),
      chunks_(slices) {
  validate(options, slices);
  trace_.slices = slices;
  trace_.line_sampling = options.line_sampling;
  trace_.page_sampling = options.page_sampling;
  trace_.queries.reserve(options.queries + 1);
  add_region(table_line_, 0, 0);
  for (std::uint32_t slice = 0; slice < slices; ++slice) find_new_chunks(slice);
}

void TraceBuilder::add_region(std::uint64_t first_line, std::uint32_t owner, std::uint32_t chunk) {
  Region region;
  region.first_line = first_line;
  // Numbers of lines and pages within a region are below 2^20; owner 0 is the root table.
  region.number = (std::uint64_t{owner} << 20 | chunk) << 20;
  region.slice = owner > 0 ? owner - 1 : 0;
  region.chunk = chunk;
  if (owner > 0) {
    region_at_.emplace(first_line / lines_per_chunk, static_cast<std::uint32_t>(regions_.size()));
  }
  regions_.push_back(std::move(region));
}

void TraceBuilder::find_new_chunks(std::uint32_t slice) {
  const auto chunks = arena_of_(slice).chunks();
  for (; chunks_[slice] < chunks.size(); ++chunks_[slice]) {
    add_region(chunks[chunks_[slice]].address / 64, slice + 1, chunks_[slice]);
  }
}

/// The region of a line.
std::uint32_t TraceBuilder::region_of(std::uint64_t line) {
  if (line - table_line_ < table_lines_) return root_table;
  const std::uint64_t block = line / lines_per_chunk;
  if (block != last_block_) {
    last_region_ = region_at_.at(block);
    last_block_ = block;
  }
  return last_region_;
}

std::uint16_t TraceBuilder::slice_at(const Region& region, std::size_t line) const {
  if (&region == &regions_[root_table]) return static_cast<std::uint16_t>(line * roots_per_line);
  return static_cast<std::uint16_t>(region.slice);
}

void TraceBuilder::touch_line(std::uint32_t number, std::size_t line, TouchLog::Entry entry) {
  Region& region = regions_[number];
  std::uint32_t& id = id_at(region.line_ids, line, no_id);
  if (id == no_id) {
    id = static_cast<std::uint32_t>(trace_.lines());
    if (id == Touch::max_lines) {
      throw std::invalid_argument(
          "the trace touches more than " + std::to_string(Touch::max_lines) +
          " lines; raise line_sampling above " + std::to_string(trace_.line_sampling));
    }
    trace_.slice_of_line.push_back(slice_at(region, line));
    trace_.address_page_of_line.push_back(
        static_cast<std::uint32_t>(number * pages_per_chunk + line / lines_per_page));
  }
  trace_.touches.emplace_back(id, entry.writes(), entry.streams(), entry.locks());
}

void TraceBuilder::touch_page(std::uint32_t number, std::size_t page) {
  Region& region = regions_[number];
  std::uint32_t& id = id_at(region.page_ids, page, no_id);
  if (id == no_id) {
    id = static_cast<std::uint32_t>(trace_.pages());
    trace_.slice_of_page.push_back(slice_at(region, page * lines_per_page));
    trace_.address_page_of_page.push_back(
        static_cast<std::uint32_t>(number * pages_per_chunk + page));
  }
  const bool repeats = trace_.page_touches.size() > trace_.queries.back().first_page &&
                       trace_.page_touches.back() == id;
  if (!repeats) trace_.page_touches.push_back(id);
}

void TraceBuilder::add(const TouchLog& log, const QueryFacts& facts) {
  const std::size_t query = trace_.queries.size();
  if (log.overflowed()) checked_count(TouchLog::capacity, query);
  trace_.queries.push_back({});
  trace_.queries.back().first_touch = trace_.touches.size();
  trace_.queries.back().first_page = trace_.page_touches.size();

  // The query itself may have made its slice grow.
  if (arena_of_(facts.slice).bytes_reserved() > chunks_[facts.slice] * SliceArena::chunk_bytes) {
    find_new_chunks(facts.slice);
  }
  std::size_t dependent = 0;
  std::size_t writes = 0;
  std::size_t pages = 0;
  std::uint64_t last_page = ~std::uint64_t{0};
  for (const TouchLog::Entry entry : log.entries()) {
    dependent += entry.streams() ? 0 : 1;
    writes += entry.writes() ? 1 : 0;
    const std::uint32_t number = region_of(entry.line());
    const auto line = static_cast<std::size_t>(entry.line() - regions_[number].first_line);
    if (is_sampled(regions_[number].number + line, trace_.line_sampling)) {
      touch_line(number, line, entry);
    }
    const std::uint64_t page = number * pages_per_chunk + line / lines_per_page;
    if (page == last_page) continue;
    last_page = page;
    ++pages;
    const std::uint64_t page_number = regions_[number].number + line / lines_per_page;
    if (is_sampled(~page_number, trace_.page_sampling)) touch_page(number, line / lines_per_page);
  }
  TracedQuery& traced = trace_.queries.back();
  traced.instructions = static_cast<std::uint32_t>(facts.instructions + 0.5);
  traced.branch_misses = static_cast<float>(facts.branch_misses);
  traced.dependent = checked_count(dependent, query);
  traced.streaming = checked_count(log.entries().size() - dependent, query);
  traced.writes = checked_count(writes, query);
  traced.pages = checked_count(pages, query);
  traced.slice = static_cast<std::uint16_t>(facts.slice);
  traced.kind = facts.kind;
}

Trace TraceBuilder::finish() {
  TracedQuery end{};
  end.first_touch = trace_.touches.size();
  end.first_page = trace_.page_touches.size();
  trace_.queries.push_back(end);

  // The chunks of a slice lie side by side in the index; the root table comes last.
  std::vector<std::uint32_t> first_chunk(trace_.slices + std::size_t{1}, 0);
  trace_.bytes_of_slice.resize(trace_.slices);
  for (std::uint32_t slice = 0; slice < trace_.slices; ++slice) {
    first_chunk[slice + 1] = first_chunk[slice] + chunks_[slice];
    trace_.bytes_of_slice[slice] = arena_of_(slice).bytes_used();
  }
  for (auto* const pages : {&trace_.address_page_of_line, &trace_.address_page_of_page}) {
    for (std::uint32_t& page : *pages) {
      const std::size_t number = page / pages_per_chunk;
      const Region& region = regions_[number];
      const std::size_t chunk =
          number == root_table ? first_chunk.back() : first_chunk[region.slice] + region.chunk;
      page = static_cast<std::uint32_t>(chunk * pages_per_chunk + page % pages_per_chunk);
    }
  }
  return std::move(trace_);
}

}  // namespace pmoss::recording
