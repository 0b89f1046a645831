// Making a trace of accesses: what waits for what, and whose a page is.
#include "recording/access_trace.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "recording/trace_builder.hpp"

namespace pmoss::recording {
namespace {

/// A line that so many of the queries read stays in the first-level cache of every core.
constexpr double usual_share = 0.9;
/// Earlier touches of a query that a distance is taken from, and how regular it must be.
constexpr std::size_t remembered = 8;
constexpr double regular_share = 0.95;
constexpr std::uint32_t fewest = 8;

constexpr std::uint64_t lines_of_page = 64;
constexpr std::uint64_t pages_of_block = 512;

/// The distance in lines between the touches of two instructions: the commonest, and how common.
struct Distance {
  std::uint64_t lines = 0;
  std::int64_t votes = 0;  // Boyer's and Moore's majority vote
  std::uint32_t same = 0, all = 0;

  bool regular() const { return all >= fewest && same >= regular_share * static_cast<double>(all); }
};

std::uint16_t checked_count(std::size_t count) {
  if (count > std::numeric_limits<std::uint16_t>::max()) {
    throw std::invalid_argument("a query touches " + std::to_string(count) +
                                " cache lines; a trace can count 65535: make the scans shorter");
  }
  return static_cast<std::uint16_t>(count);
}

}  // namespace

PlannedQueries plan_queries(const WorkloadSpec& spec, std::uint32_t slices,
                            const TraceOptions& options) {
  pmoss::validate(spec);
  validate(options, slices);
  PlannedQueries planned;
  planned.slices = slices;
  planned.records_of_slice.resize(slices);
  for (std::uint64_t record = 0; record < spec.records; ++record) {
    planned.keys.push_back(spec.space.key(record, spec.seed));
    ++planned.records_of_slice[slice_of_key(planned.keys.back(), slices)];
  }
  // As when the library is served.
  std::stable_sort(planned.keys.begin(), planned.keys.end(), [&](std::uint64_t a, std::uint64_t b) {
    return slice_of_key(a, slices) < slice_of_key(b, slices);
  });
  std::vector<std::uint64_t> sorted;
  if (spec.scan > 0.0) {
    sorted = planned.keys;
    std::sort(sorted.begin(), sorted.end());
  }
  OperationGenerator generator(spec, options.seed, spec.records, 1);
  Random routing(mix64(mix64(~spec.seed) + options.seed));
  for (std::uint64_t i = 0; i < options.queries; ++i) {
    const Operation operation = generator.next();
    std::uint32_t slice = slice_of_key(operation.key, slices);
    if (operation.kind == Operation::Kind::scan && !sorted.empty()) {
      const auto from = std::lower_bound(sorted.begin(), sorted.end(), operation.key);
      const auto count = std::min<std::ptrdiff_t>(operation.scan_length, sorted.end() - from);
      const std::uint32_t last = count > 0 ? slice_of_key(*(from + count - 1), slices) : slice;
      if (last > slice) {
        slice += static_cast<std::uint32_t>(routing.below(last - slice + std::uint64_t{1}));
      }
    }
    planned.queries.insert(planned.queries.end(),
                           {operation.key, static_cast<std::uint64_t>(operation.kind),
                            std::uint64_t{operation.scan_length}});
    planned.slice.push_back(static_cast<std::uint16_t>(slice));
  }
  planned.worker = worker_cost(main_share(spec));
  return planned;
}

void AccessTrace::leave_out_what_stays() {
  struct Line {
    std::size_t queries = 0, last = ~std::size_t{0};
    bool written = false;
  };
  std::unordered_map<std::uint64_t, Line> lines;
  const std::size_t queries = first_.size() - 1;
  for (std::size_t query = 0; query < queries; ++query) {
    for (std::size_t i = first_[query]; i < first_[query + 1]; ++i) {
      Line& line = lines[accesses_[i].line];
      line.written |= accesses_[i].writes;
      if (line.last != query) ++line.queries;
      line.last = query;
    }
  }
  std::size_t left_out = 0;
  for (Access& access : accesses_) {
    const Line& line = lines[access.line];
    access.stays = !line.written &&
                   static_cast<double>(line.queries) >= usual_share * static_cast<double>(queries);
    left_out += access.stays ? 1 : 0;
  }
  left_out_ = static_cast<double>(left_out) / static_cast<double>(queries);
}

void AccessTrace::find_streams() {
  std::unordered_map<std::uint64_t, Distance> distances;
  // Calls visit(access, distance of its instruction from an earlier one's, lines between them).
  const auto each = [&](auto visit) {
    for (std::size_t query = 0; query + 1 < first_.size(); ++query) {
      for (std::size_t i = first_[query]; i < first_[query + 1]; ++i) {
        Access& access = accesses_[i];
        if (access.stays || access.writes || access.goes_on) continue;
        std::array<std::uint32_t, remembered> sites{};
        std::size_t sites_before = 0;
        for (std::size_t j = i; j-- > first_[query] && sites_before < remembered;) {
          const Access& earlier = accesses_[j];
          if (earlier.stays || earlier.goes_on) continue;
          const auto end = sites.begin() + static_cast<std::ptrdiff_t>(sites_before);
          if (std::find(sites.begin(), end, earlier.site) != end) continue;
          sites[sites_before++] = earlier.site;
          const std::uint64_t pair = std::uint64_t{access.site} << 32 | earlier.site;
          visit(access, distances[pair], access.line - earlier.line);
        }
      }
    }
  };
  each([](Access&, Distance& distance, std::uint64_t lines) {
    if (distance.votes == 0) distance.lines = lines;
    distance.votes += distance.lines == lines ? 1 : -1;
  });
  each([](Access&, Distance& distance, std::uint64_t lines) {
    ++distance.all;
    distance.same += distance.lines == lines ? 1 : 0;
  });
  each([](Access& access, const Distance& distance, std::uint64_t lines) {
    if (distance.regular() && distance.lines == lines) access.streams = true;
  });
  for (Access& access : accesses_) {
    if (access.goes_on || (access.writes && !access.locks)) access.streams = true;
  }
}

/// Gives every page a number, an address in the index and a slice, and tells the page of each line.
void AccessTrace::number_pages(Trace& trace, std::vector<std::uint32_t>& page_of) const {
  std::unordered_map<std::uint64_t, std::unordered_map<std::uint16_t, std::size_t>> touches;
  std::vector<std::uint64_t> blocks;
  for (std::size_t query = 0; query + 1 < first_.size(); ++query) {
    for (std::size_t i = first_[query]; i < first_[query + 1]; ++i) {
      if (accesses_[i].stays) continue;
      const std::uint64_t page = accesses_[i].line / lines_of_page;
      ++touches[page][planned_.slice[query]];
      blocks.push_back(page / pages_of_block);
    }
  }
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  page_of.resize(line_ids_.size());
  trace.slice_of_page.resize(page_ids_.size());
  trace.address_page_of_page.resize(page_ids_.size());
  for (const auto& [page, number] : page_ids_) {
    const auto block = std::lower_bound(blocks.begin(), blocks.end(), page / pages_of_block);
    trace.address_page_of_page[number] = static_cast<std::uint32_t>(
        static_cast<std::uint64_t>(block - blocks.begin()) * pages_of_block +
        page % pages_of_block);
    // The lower slice where two touch it as often.
    std::pair<std::size_t, int> most_touched{0, 0};
    for (const auto& [slice, count] : touches.at(page))
      most_touched = std::max(most_touched, {count, -slice});
    trace.slice_of_page[number] = static_cast<std::uint16_t>(-most_touched.second);
  }
  for (const auto& [line, number] : line_ids_) {
    page_of[number] = page_ids_.at(line / lines_of_page);
  }
}

void AccessTrace::add_query(Trace& trace, std::size_t query, const OperationCost& cost) const {
  TracedQuery traced{};
  traced.first_touch = trace.touches.size();
  traced.first_page = trace.page_touches.size();
  std::size_t dependent = 0, streaming = 0, writes = 0, pages = 0;
  for (std::size_t i = first_[query]; i < first_[query + 1]; ++i) {
    const Access& access = accesses_[i];
    if (access.stays) continue;
    (access.streams ? streaming : dependent) += 1;
    writes += access.writes ? 1 : 0;
    trace.touches.emplace_back(line_ids_.at(access.line), access.writes, access.streams,
                               access.locks);
    const std::uint32_t page = page_ids_.at(access.line / lines_of_page);
    if (pages == 0 || trace.page_touches.back() != page) {
      trace.page_touches.push_back(page);
      ++pages;
    }
  }
  traced.instructions =
      static_cast<std::uint32_t>(planned_.worker.instructions + cost.instructions + 0.5);
  traced.branch_misses = static_cast<float>(planned_.worker.branch_misses + cost.branch_misses);
  traced.dependent = checked_count(dependent);
  traced.streaming = checked_count(streaming);
  traced.writes = checked_count(writes);
  traced.pages = checked_count(pages);
  traced.slice = planned_.slice[query];
  traced.kind = static_cast<std::uint8_t>(planned_.queries[3 * query + 1]);
  trace.queries.push_back(traced);
}

Trace AccessTrace::finish(const std::array<OperationCost, 4>& costs) {
  const std::size_t queries = first_.size() - 1;
  if (queries == 0) throw std::invalid_argument("no query was seen from its begin to its end");
  accesses_.resize(first_.back());  // less those of a query that has not ended
  leave_out_what_stays();
  find_streams();
  for (const Access& access : accesses_) {
    if (access.stays) continue;
    line_ids_.try_emplace(access.line, static_cast<std::uint32_t>(line_ids_.size()));
    page_ids_.try_emplace(access.line / lines_of_page,
                          static_cast<std::uint32_t>(page_ids_.size()));
  }
  if (line_ids_.size() > Touch::max_lines) {
    throw std::invalid_argument("the queries touch " + std::to_string(line_ids_.size()) +
                                " lines: record fewer");
  }
  Trace trace;
  trace.slices = planned_.slices;
  for (std::size_t query = 0; query < queries; ++query) {
    add_query(trace, query, costs.at(planned_.queries[3 * query + 1]));
  }
  TracedQuery end{};
  end.first_touch = trace.touches.size();
  end.first_page = trace.page_touches.size();
  trace.queries.push_back(end);
  std::vector<std::uint32_t> page_of;
  number_pages(trace, page_of);
  for (const std::uint32_t page : page_of) {
    trace.slice_of_line.push_back(trace.slice_of_page[page]);
    trace.address_page_of_line.push_back(trace.address_page_of_page[page]);
  }
  for (const std::uint64_t records : planned_.records_of_slice) {
    trace.bytes_of_slice.push_back(
        static_cast<std::uint64_t>(record_bytes_ * static_cast<double>(records)));
  }
  return trace;
}

}  // namespace pmoss::recording
