#include "kinds/served_rtree.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "index/rtree_node.hpp"

namespace pmoss::kinds {
namespace {

using runtime::Candidates;
using runtime::Item;
using runtime::QueryExecutor;
using runtime::QueryStream;
using runtime::Ring;

constexpr double fill = 0.7;  // of nodes that were split and refilled in random order

const WorkloadSpec& checked(const WorkloadSpec& spec) {
  validate_points(spec);
  return spec;
}

class Stream final : public QueryStream {
 public:
  Stream(PointGenerator generator, std::uint64_t records, const Grid& grid)
      : generator_(std::move(generator)), squares_(records), grid_(grid) {}

  Operation next() noexcept override {
    const PointOperation drawn = generator_.next();
    return {packed(drawn.point), drawn.points, drawn.kind};
  }

  Candidates candidates(const Operation& operation) const noexcept override {
    const Point point = unpacked(operation.key);
    if (operation.kind != Operation::Kind::scan) return {grid_.slice_of(point)};
    const Rectangle range = squares_.around(point, operation.scan_length);
    const std::uint32_t row = grid_.row_of(range.y_low);
    const std::uint32_t column = grid_.column_of(range.x_low);
    return {row * grid_.columns + column, grid_.column_of(range.x_high) - column + 1,
            grid_.row_of(range.y_high) - row + 1, grid_.columns};
  }

 private:
  PointGenerator generator_;
  ScanSquares squares_;
  Grid grid_;
};

template <class Tree>
class Executor final : public QueryExecutor {
 public:
  Executor(Tree& tree, const WorkloadSpec& spec) : tree_(tree), squares_(spec.records) {
    // Clustered points are denser than the mean where most queries go.
    values_.reserve(std::size_t{64} * spec.max_scan_length);
  }

  void execute(const EpochGuard&, const Item& item) override {
    if (item.kind() != Operation::Kind::insert) {
      const Rectangle range = range_of(item);
      return find({&range, 1});
    }
    ++totals_.executed;
    tree_.insert(unpacked(item.key()), item.key());
    ++totals_.inserted;
  }

  // Ranges go together, and inserts come after them.
  void execute_batch(const EpochGuard& guard, const Ring& ring, std::size_t count) override {
    Rectangle ranges[RTree::together];
    std::size_t waiting = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const Item& item = ring.front(i);
      if (item.kind() == Operation::Kind::insert) {
        tree_.prefetch(unpacked(item.key()));
        continue;
      }
      ranges[waiting++] = range_of(item);
      if (waiting == RTree::together) find({ranges, std::exchange(waiting, 0)});
    }
    find({ranges, waiting});
    for (std::size_t i = 0; i < count; ++i) {
      if (ring.front(i).kind() == Operation::Kind::insert) execute(guard, ring.front(i));
    }
  }

 private:
  Rectangle range_of(const Item& item) const noexcept {
    const Point point = unpacked(item.key());
    if (item.kind() == Operation::Kind::scan) return squares_.around(point, item.scan_length());
    return {point.x, point.y, point.x, point.y};  // updates were refused with the spec
  }

  // Every query is around a point that is there.
  void find(std::span<const Rectangle> ranges) {
    std::size_t ends[RTree::together];
    values_.clear();
    tree_.find_batch(ranges, values_, ends);
    std::size_t start = 0;
    for (std::size_t i = 0; i < ranges.size(); start = ends[i++]) {
      ++totals_.executed;
      if (ends[i] == start) ++totals_.not_found;
    }
    for (const std::uint64_t value : values_) totals_.checksum ^= value;
  }

  Tree& tree_;
  ScanSquares squares_;
  std::vector<std::uint64_t> values_;
};

}  // namespace

template <class Tree, class Migration>
ServedPoints<Tree, Migration>::ServedPoints(const WorkloadSpec& spec,
                                            const typename Tree::Options& options)
    : runtime::ServedTree<Tree, Migration>(checked(spec), options) {}

template <class Tree, class Migration>
double ServedPoints<Tree, Migration>::bytes_to_load() const noexcept {
  const auto points = static_cast<double>(spec_.records);
  const double leaves = points / (fill * tree_.fanout()) + tree_.slices();
  const unsigned stride = index_detail::RTreeNode::stride_of(tree_.fanout());
  const bool words = spec_.value_bytes == sizeof(std::uint64_t);
  const double of_values =
      words ? 0.0 : points * static_cast<double>(ValueBlocks::bytes(spec_.value_bytes));
  // The points themselves are gathered first.
  return of_values +
         1.05 * leaves * static_cast<double>(index_detail::RTreeNode::bytes(0, stride)) +
         1.5 * points * sizeof(Point);
}

// Each loader computes all records, which is cheap, and keeps those of its slices. The slices are
// then packed one by one, as they are for a recording.
template <class Tree, class Migration>
void ServedPoints<Tree, Migration>::load(std::uint32_t first, std::uint32_t last,
                                         std::atomic<std::uint64_t>& done,
                                         const std::function<bool()>& cancelled) {
  std::vector<std::vector<Point>> points(last - first);
  for (std::uint64_t record = 0; record < spec_.records; ++record) {
    if ((record & 0xfff) == 0 && cancelled()) return;
    const Point point = point_of_record(spec_.space, record);
    const std::uint32_t slice = tree_.grid().slice_of(point);
    if (slice >= first && slice < last) points[slice - first].push_back(point);
  }
  std::uint64_t loaded = 0;
  std::vector<std::uint64_t> values;
  for (std::uint32_t slice = first; slice < last; ++slice) {
    if (cancelled()) return;
    std::vector<Point> own = std::exchange(points[slice - first], {});
    // Not what an earlier call has loaded before it was cancelled.
    if (tree_.slice_size(slice) == 0) {
      values.resize(own.size());
      std::transform(own.begin(), own.end(), values.begin(), packed);
      tree_.bulk_load_slice(slice, own, values, fill);
    }
    loaded += own.size();
    done.store(loaded, std::memory_order_relaxed);
  }
}

template <class Tree, class Migration>
std::unique_ptr<QueryStream> ServedPoints<Tree, Migration>::stream(
    std::uint64_t seed, std::uint64_t first_insert_record, std::uint64_t insert_stride) const {
  return std::make_unique<Stream>(PointGenerator(spec_, seed, first_insert_record, insert_stride),
                                  spec_.records, tree_.grid());
}

template <class Tree, class Migration>
runtime::InNodeMemory<QueryExecutor> ServedPoints<Tree, Migration>::executor(
    std::pmr::memory_resource& memory) {
  return runtime::make_in<Executor<Tree>>(memory, tree_, spec_);
}

template class ServedPoints<RTree, RTreeMigration>;
template class ServedPoints<RTreeOfValues, void>;

}  // namespace pmoss::kinds
