// A trace from what a tool such as Valgrind prints of a process that serves queries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "index/operation_cost.hpp"
#include "index/tracer.hpp"
#include "recording/trace.hpp"
#include "workload/generator.hpp"

namespace pmoss::recording {

/// Queries to be served by a process that is watched.
struct PlannedQueries {
  std::uint32_t slices = 0;
  std::vector<std::uint64_t> keys;     ///< in the order in which they are loaded
  std::vector<std::uint64_t> queries;  ///< three words each: key, kind and length
  std::vector<std::uint16_t> slice;    ///< whose core runs each query
  std::vector<std::uint64_t> records_of_slice;
  OperationCost worker{};  ///< what serving adds to each query

  std::size_t size() const { return slice.size(); }
};

/// The queries that a KeyRecorder of the same arguments runs. A scan runs on the core of any slice
/// that it reads from, drawn with the seed. Throws std::invalid_argument for what makes no sense.
PlannedQueries plan_queries(const WorkloadSpec& spec, std::uint32_t slices,
                            const TraceOptions& options);

/// Gathers the accesses of one process. It understands what two tools of Valgrind print: DRD, asked
/// to trace addresses, and Lackey with --trace-mem=yes.
///
/// Such a list tells no more than addresses. What the built-in indexes say of themselves is
/// inferred:
/// - No instruction waits for a store to data. An instruction with a lock prefix takes a lock.
/// - A line is fetched beside others where its distance from a line before it in the query is
/// always
///   the same: its address was known when that one's was. Everything else is waited for.
/// - A line that nearly all queries read and none writes stays in the first-level caches: no touch.
/// - A page belongs to the slice whose queries touch it most, and its lines do.
class AccessTrace {
 public:
  explicit AccessTrace(PlannedQueries planned);

  /// Takes the facts that the process wrote before its first query (kinds/driven_plugin.hpp).
  /// Throws std::invalid_argument if they are damaged.
  void take_facts(const std::string& facts);

  /// Takes a piece of the list, which may end anywhere. Returns how many queries have ended.
  std::size_t feed(std::string_view piece);

  /// What a query of each kind costs, by Operation::Kind; then the trace, of the queries that have
  /// ended. Throws std::invalid_argument if there is none, or too many lines for a trace.
  Trace finish(const std::array<OperationCost, 4>& costs);

  /// Touches per query of lines that stay in the first-level caches, which finish() left out.
  double left_out() const { return left_out_; }

 private:
  struct Range {
    std::uint64_t first, end;
  };
  struct Code {
    std::uint64_t first, end, offset;
    std::string path;
  };
  struct Access {
    std::uint64_t line;
    std::uint32_t site;
    bool writes, locks;
    bool goes_on;  ///< of the access before, into its next line
    bool streams = false;
    bool stays = false;
  };

  void take_line(std::string_view text);
  void take_drd(std::string_view text);
  void take_lackey(std::string_view text);
  void access(std::uint64_t address, std::size_t bytes, bool writes, std::uint64_t instruction);
  bool is_data(std::uint64_t address);
  std::uint32_t site_of(std::uint64_t instruction);
  bool takes_lock(std::uint64_t instruction) const;
  void leave_out_what_stays();
  void find_streams();
  void number_pages(Trace& trace, std::vector<std::uint32_t>& page_of) const;
  void add_query(Trace& trace, std::size_t query, const OperationCost& cost) const;

  PlannedQueries planned_;
  std::uint64_t mark_ = 0;
  std::vector<Range> data_;
  std::size_t last_range_ = 0;
  std::vector<Code> code_;
  double record_bytes_ = 0.0;

  std::string rest_;  // of a line that has not ended
  bool inside_ = false;
  std::uint64_t instruction_ = 0;  // Lackey: of the accesses to come
  struct {
    std::uint64_t address = 0;
    std::size_t bytes = 0;
    bool writes = false;
  } pending_;  // DRD: whose instruction comes in the next line

  TouchLog log_;
  std::vector<std::uint32_t> site_of_entry_;
  std::unordered_map<std::uint64_t, std::uint32_t> sites_;
  std::vector<bool> site_locks_;
  std::vector<Access> accesses_;
  std::vector<std::size_t> first_{0};  // per query that has ended, and the end of the last one
  double left_out_ = 0.0;
  // Of finish().
  std::unordered_map<std::uint64_t, std::uint32_t> line_ids_, page_ids_;
};

}  // namespace pmoss::recording
