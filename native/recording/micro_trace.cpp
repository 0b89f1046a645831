#include "recording/micro_trace.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "numa/available_memory.hpp"
#include "workload/random.hpp"

namespace pmoss::recording {
namespace {

constexpr std::uint32_t lines_per_page = 64;
constexpr std::uint32_t pages_per_huge_page = 512;

void require(std::uint64_t value, const char* name, std::uint64_t largest) {
  if (value >= 1 && value <= largest) return;
  throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) +
                              ": must be 1 to " + std::to_string(largest));
}

// A trace with its lines and pages but without queries.
std::shared_ptr<Trace> empty_trace(std::uint32_t slices, std::uint32_t lines_per_slice,
                                   std::uint32_t pages_per_slice, std::uint64_t queries,
                                   std::uint64_t touches) {
  require(slices, "slices", 65'536);
  require(queries, "queries", std::numeric_limits<std::uint32_t>::max() - 1);
  if (lines_per_slice > 0) {
    require(std::uint64_t{slices} * lines_per_slice, "lines", Touch::max_lines);
  }
  const std::uint32_t pages = (lines_per_slice + lines_per_page - 1) / lines_per_page;
  const std::uint64_t huge_pages =
      (std::uint64_t{pages} + pages_per_slice + pages_per_huge_page - 1) / pages_per_huge_page;
  require(slices * huge_pages, "pages of 2 MiB", (1U << 31) / pages_per_huge_page);
  numa::require_memory(static_cast<double>(queries + 1) * sizeof(TracedQuery) +
                           static_cast<double>(touches) * sizeof(Touch) +
                           6.0 * slices * (static_cast<double>(lines_per_slice) + pages_per_slice),
                       "the trace", "ask for fewer queries or lines");
  auto trace = std::make_shared<Trace>();
  trace->slices = slices;
  trace->queries.reserve(queries + 1);
  trace->touches.reserve(touches);
  trace->bytes_of_slice.assign(slices, std::uint64_t{64} * lines_per_slice);
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    const auto first_page = static_cast<std::uint32_t>(slice * huge_pages * pages_per_huge_page);
    for (std::uint32_t line = 0; line < lines_per_slice; ++line) {
      trace->slice_of_line.push_back(static_cast<std::uint16_t>(slice));
      trace->address_page_of_line.push_back(first_page + line / lines_per_page);
    }
    for (std::uint32_t page = 0; page < pages_per_slice; ++page) {
      trace->slice_of_page.push_back(static_cast<std::uint16_t>(slice));
      trace->address_page_of_page.push_back(first_page + page);
    }
  }
  return trace;
}

// The query whose touches come next.
TracedQuery next_query(const Trace& trace, std::uint64_t slice) {
  TracedQuery query{};
  query.first_touch = trace.touches.size();
  query.first_page = trace.page_touches.size();
  query.slice = static_cast<std::uint16_t>(slice);
  return query;
}

std::vector<std::uint32_t> shuffled(std::uint32_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  Random random(n);
  for (std::uint32_t left = n; left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

}  // namespace

std::shared_ptr<Trace> pointer_chase(std::uint32_t slices, std::uint32_t lines_per_slice,
                                     std::uint64_t queries) {
  require(lines_per_slice, "lines_per_slice", Touch::max_lines);
  auto trace = empty_trace(slices, lines_per_slice, 0, queries, queries);
  const std::vector<std::uint32_t> order = shuffled(lines_per_slice);
  for (std::uint64_t i = 0; i < queries; ++i) {
    const auto slice = static_cast<std::uint32_t>(i % slices);
    trace->queries.push_back(next_query(*trace, slice));
    trace->queries.back().dependent = 1;
    const std::uint32_t line = slice * lines_per_slice + order[i / slices % lines_per_slice];
    trace->touches.emplace_back(line, false, false, false);
  }
  trace->queries.push_back(next_query(*trace, 0));
  return trace;
}

std::shared_ptr<Trace> streaming(std::uint32_t slices, std::uint32_t lines_per_slice,
                                 std::uint32_t lines_per_query, std::uint64_t queries,
                                 double written_share) {
  require(lines_per_slice, "lines_per_slice", Touch::max_lines);
  require(lines_per_query, "lines_per_query", std::numeric_limits<std::uint16_t>::max());
  if (!(written_share >= 0.0 && written_share <= 1.0)) {
    throw std::invalid_argument("written_share = " + std::to_string(written_share) +
                                ": must be 0 to 1");
  }
  auto trace = empty_trace(slices, lines_per_slice, 0, queries, queries * lines_per_query);
  const auto written_before = [&](std::uint32_t line) { return std::floor(line * written_share); };
  std::vector<std::uint32_t> next(slices, 0);
  for (std::uint64_t i = 0; i < queries; ++i) {
    const auto slice = static_cast<std::uint32_t>(i % slices);
    TracedQuery query = next_query(*trace, slice);
    query.streaming = static_cast<std::uint16_t>(lines_per_query);
    std::uint32_t& at = next[slice];
    for (std::uint32_t n = 0; n < lines_per_query; ++n) {
      const bool writes = written_before(at + 1) > written_before(at);
      query.writes = static_cast<std::uint16_t>(query.writes + (writes ? 1 : 0));
      trace->touches.emplace_back(slice * lines_per_slice + at, writes, true, false);
      at = at + 1 == lines_per_slice ? 0 : at + 1;
    }
    trace->queries.push_back(query);
  }
  trace->queries.push_back(next_query(*trace, 0));
  return trace;
}

std::shared_ptr<Trace> modified_lines(std::uint32_t lines, std::uint64_t queries) {
  require(lines, "lines", Touch::max_lines / 2);
  auto trace = empty_trace(2, lines, 0, queries, queries);
  for (std::uint64_t i = 0; i < queries; ++i) {
    trace->queries.push_back(next_query(*trace, i % 2));
    trace->queries.back().dependent = trace->queries.back().writes = 1;
    trace->touches.emplace_back(static_cast<std::uint32_t>(i / 2 % lines), true, false, false);
  }
  trace->queries.push_back(next_query(*trace, 0));
  return trace;
}

std::shared_ptr<Trace> page_chase(std::uint32_t slices, std::uint32_t pages_per_slice,
                                  std::uint64_t queries) {
  require(pages_per_slice, "pages_per_slice", 1U << 24);
  auto trace = empty_trace(slices, 0, pages_per_slice, queries, 0);
  trace->page_touches.reserve(queries);
  const std::vector<std::uint32_t> order = shuffled(pages_per_slice);
  for (std::uint64_t i = 0; i < queries; ++i) {
    const auto slice = static_cast<std::uint32_t>(i % slices);
    trace->queries.push_back(next_query(*trace, slice));
    trace->queries.back().pages = 1;
    const std::uint32_t page = order[i / slices % pages_per_slice];
    trace->page_touches.push_back(slice * pages_per_slice + page);
  }
  trace->queries.push_back(next_query(*trace, 0));
  return trace;
}

}  // namespace pmoss::recording
