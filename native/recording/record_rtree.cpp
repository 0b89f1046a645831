#include "recording/record_rtree.hpp"

#include <algorithm>
#include <vector>

#include "index/operation_cost.hpp"
#include "index/rtree.hpp"
#include "index/rtree_node.hpp"
#include "recording/recording_size.hpp"
#include "recording/trace_builder.hpp"

namespace pmoss::recording {
namespace {

using index_detail::RTreeNode;

constexpr double fill = 0.7;  // of nodes that were split and refilled in random order

std::uint32_t fanout() { return RTree::Options{}.fanout; }

/// Bytes of the nodes once all queries have run.
double tree_bytes(const WorkloadSpec& spec, std::uint32_t slices, const TraceOptions& options) {
  const double points =
      static_cast<double>(spec.records) + spec.insert * static_cast<double>(options.queries);
  const unsigned stride = RTreeNode::stride_of(fanout());
  const double leaves = points / (fanout() * fill);
  return leaves * static_cast<double>(RTreeNode::bytes(0, stride)) +
         (0.04 * leaves + 2.0 * slices) * static_cast<double>(RTreeNode::bytes(1, stride));
}

void load(RTree& tree, const WorkloadSpec& spec) {
  std::vector<Point> points(spec.records);
  std::vector<std::uint64_t> values(spec.records);
  for (std::uint64_t record = 0; record < spec.records; ++record) {
    points[record] = point_of_record(spec.space, record);
    values[record] = record;
  }
  tree.bulk_load(points, values, fill);
}

/// Runs operations on the tree and adds each to the builder.
class Recorder {
 public:
  Recorder(const WorkloadSpec& spec, const TraceOptions& options, RTree& tree)
      : tree_(tree),
        worker_(worker_cost(std::max({spec.lookup, spec.insert, spec.scan}))),
        generator_(spec, options.seed),
        routing_(mix64(mix64(~spec.seed) + options.seed)),
        builder_(
            tree.slices(), options,
            [&tree](std::uint32_t slice) -> const SliceArena& { return tree.arena(slice); },
            tree.root_table()) {}

  Trace record(std::uint64_t queries) {
    for (std::uint64_t i = 0; i < queries; ++i) run(generator_.next());
    return builder_.finish();
  }

 private:
  void run(const PointOperation& operation) {
    log_.clear();
    const Rectangle& range = operation.range;
    OperationCost cost{};
    if (operation.kind == Operation::Kind::insert) {
      const Point point = {range.x_low, range.y_low};
      const double levels = std::max(tree_.height(tree_.grid().slice_of(point)), 1U);
      tree_.insert(point, operation.record, log_);
      const auto written = std::count_if(log_.entries().begin(), log_.entries().end(),
                                         [](TouchLog::Entry entry) { return entry.writes(); });
      cost = point_insert_cost(levels, static_cast<double>(written));
    } else {
      values_.clear();
      const RTree::Work work = tree_.find(range, values_, log_);
      cost = range_cost(static_cast<double>(work.nodes), static_cast<double>(work.points));
    }
    builder_.add(log_, {choose_slice(range), static_cast<std::uint8_t>(operation.kind),
                        cost.instructions + worker_.instructions,
                        cost.branch_misses + worker_.branch_misses});
  }

  /// One of the cells that a range overlaps.
  std::uint32_t choose_slice(const Rectangle& range) {
    const Grid& grid = tree_.grid();
    const std::uint32_t row = grid.row_of(range.y_low);
    const std::uint32_t column = grid.column_of(range.x_low);
    const std::uint64_t rows = grid.row_of(range.y_high) - row + std::uint64_t{1};
    const std::uint64_t columns = grid.column_of(range.x_high) - column + std::uint64_t{1};
    const std::uint64_t cell = rows * columns > 1 ? routing_.below(rows * columns) : 0;
    return static_cast<std::uint32_t>((row + cell / columns) * grid.columns + column +
                                      cell % columns);
  }

  RTree& tree_;
  OperationCost worker_;
  PointGenerator generator_;
  Random routing_;
  TouchLog log_;
  std::vector<std::uint64_t> values_;
  TraceBuilder builder_;
};

}  // namespace

std::shared_ptr<const Trace> record_rtree(const WorkloadSpec& spec, std::uint32_t slices,
                                          const TraceOptions& options) {
  validate_points(spec);
  validate(options, slices);
  const double bytes = tree_bytes(spec, slices, options);
  check({.index_bytes = bytes,
         // The points and their values, and these once more while they are sorted.
         .source_bytes = 2.0 * 16.0 * static_cast<double>(spec.records),
         .sorting_bytes = 0.0,
         .touches = 150.0,
         .pages = 30.0},
        spec.records, slices, options);
  RTree tree({.grid = grid_of(slices), .huge_pages = suits_huge_pages(bytes, slices)});
  load(tree, spec);
  return std::make_shared<const Trace>(Recorder(spec, options, tree).record(options.queries));
}

}  // namespace pmoss::recording
