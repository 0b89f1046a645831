// What the index code touched while it served a stream of queries: recorded once per workload
// instance, then replayed under any number of schedules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pmoss::recording {

/// How much is recorded. A line or page is either recorded at every touch or never, by a hash of
/// its number; the simulator shrinks its caches by the same factor.
struct TraceOptions {
  std::uint64_t queries = 2'000'000;
  std::uint32_t line_sampling = 64;  ///< 1 of so many cache lines is recorded
  std::uint32_t page_sampling = 8;   ///< 1 of so many pages is recorded
  std::uint64_t seed = 0;            ///< of the stream of queries
};

/// One touch of a recorded cache line, in 32 bits.
class Touch {
 public:
  static constexpr std::uint32_t max_lines = 1U << 29;

  /// `line` is a number below the trace's lines().
  constexpr Touch(std::uint32_t line, bool writes, bool streams, bool locks) noexcept
      : bits_(line | (writes ? 1U << 31 : 0) | (streams ? 1U << 30 : 0) | (locks ? 1U << 29 : 0)) {}

  constexpr std::uint32_t line() const noexcept { return bits_ & (max_lines - 1); }
  constexpr bool writes() const noexcept { return (bits_ & 1U << 31) != 0; }
  /// Part of a run of lines that the processor fetches ahead, fetched beside a line that is waited
  /// for, or stored to; else the next touch waits for it.
  constexpr bool streams() const noexcept { return (bits_ & 1U << 30) != 0; }
  /// A write that takes a node's lock (the version word).
  constexpr bool locks() const noexcept { return (bits_ & 1U << 29) != 0; }

 private:
  std::uint32_t bits_;
};

/// One query. The counts are of all touches, recorded or not. A line is touched when the query
/// first reads it and when it first writes it; what a first-level cache serves then is no touch.
struct TracedQuery {
  std::uint64_t first_touch;  ///< in touches; the next query's is its end
  std::uint64_t first_page;   ///< in page_touches
  std::uint32_t instructions;
  float branch_misses;
  std::uint16_t dependent;  ///< cache lines touched that the next touch waits for
  std::uint16_t streaming;  ///< cache lines touched in runs
  std::uint16_t writes;     ///< cache lines written, of both
  std::uint16_t pages;      ///< changes of page
  std::uint16_t slice;      ///< whose core runs it
  std::uint8_t kind;        ///< Operation::Kind
};

struct Trace {
  std::uint32_t slices = 0;
  std::uint32_t line_sampling = 1, page_sampling = 1;
  std::vector<TracedQuery> queries;  ///< one more than there are: the end of the last one
  std::vector<Touch> touches;
  std::vector<std::uint32_t> page_touches;  ///< recorded pages, without repeats in a row

  // Per recorded line and per recorded page.
  std::vector<std::uint16_t> slice_of_line;
  /// Number of its 4 KiB page in the whole index; 512 of them in a row are a 2 MiB page, which
  /// belongs to one slice. The table of the slices' roots comes last, its lines with the first
  /// slice that each holds the root of.
  std::vector<std::uint32_t> address_page_of_line;
  std::vector<std::uint16_t> slice_of_page;
  std::vector<std::uint32_t> address_page_of_page;
  // Per slice.
  std::vector<std::uint64_t> bytes_of_slice;

  std::size_t size() const { return queries.empty() ? 0 : queries.size() - 1; }
  std::size_t lines() const { return slice_of_line.size(); }
  std::size_t pages() const { return slice_of_page.size(); }
  std::span<const Touch> touches_of(std::size_t query) const {
    return {touches.data() + queries[query].first_touch,
            touches.data() + queries[query + 1].first_touch};
  }
  std::span<const std::uint32_t> pages_of(std::size_t query) const {
    return {page_touches.data() + queries[query].first_page,
            page_touches.data() + queries[query + 1].first_page};
  }
};

}  // namespace pmoss::recording
