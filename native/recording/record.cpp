#include "recording/record.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "index/btree.hpp"
#include "index/operation_cost.hpp"
#include "recording/recording_size.hpp"
#include "recording/sort_keys.hpp"
#include "recording/trace_builder.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::recording {
namespace {

constexpr double mean_fill = 0.6931471805599453;
constexpr double node_bytes = sizeof(index_detail::Node);
constexpr double keys_per_leaf = index_detail::leaf_capacity * mean_fill;

/// Bytes of the nodes once all queries have run. A slice has at least one leaf.
double tree_bytes(const WorkloadSpec& spec, std::uint32_t slices, const TraceOptions& options) {
  const double keys =
      static_cast<double>(spec.records) + spec.insert * static_cast<double>(options.queries);
  return (1.02 * keys / keys_per_leaf + slices) * node_bytes;
}

/// Entries that one scan may find.
std::size_t longest_scan(const WorkloadSpec& spec, const TraceOptions& options) {
  if (spec.scan == 0.0) return 0;
  return std::min<std::uint64_t>(spec.max_scan_length, spec.records + options.queries);
}

/// Runs operations on the tree and adds each to the builder.
class Recorder {
 public:
  Recorder(const WorkloadSpec& spec, std::uint32_t slices, const TraceOptions& options, BTree& tree)
      : tree_(tree),
        slices_(slices),
        generator_(spec, options.seed, spec.records, 1),
        routing_(mix64(mix64(~spec.seed) + options.seed)),
        worker_(worker_cost(std::max({spec.lookup, spec.insert, spec.scan, spec.update}))),
        keys_(longest_scan(spec, options)),
        values_(keys_.size()),
        builder_(
            slices, options,
            [&tree](std::uint32_t slice) -> const SliceArena& { return tree.arena(slice); },
            tree.root_table()) {}

  Trace record(std::uint64_t queries) {
    for (std::uint64_t left = queries; left > 0;) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(left, batch));
      std::array<Operation, batch> operations;
      std::array<std::uint64_t, batch> keys;
      for (std::size_t i = 0; i < n; ++i) {
        operations[i] = generator_.next();
        keys[i] = operations[i].key;
      }
      // Only to have the way to each key in the cache, with the misses overlapped.
      std::array<std::uint64_t, batch> ignored;
      std::array<bool, batch> ignored_found;
      tree_.lookup_batch(keys.data(), n, ignored.data(), ignored_found.data());
      for (std::size_t i = 0; i < n; ++i) run(operations[i]);
      left -= n;
    }
    return builder_.finish();
  }

 private:
  static constexpr std::size_t batch = 64;

  void run(const Operation& operation) {
    log_.clear();
    std::uint32_t slice = slice_of_key(operation.key, slices_);
    const double levels = tree_.height(slice);
    OperationCost cost{};
    switch (operation.kind) {
      case Operation::Kind::lookup: {
        std::uint64_t value = 0;
        tree_.lookup(operation.key, value, log_);
        cost = lookup_cost(levels);
        break;
      }
      case Operation::Kind::insert: {
        tree_.insert(operation.key, operation.key, log_);
        const auto written = std::count_if(log_.entries().begin(), log_.entries().end(),
                                           [](TouchLog::Entry entry) { return entry.writes(); });
        cost = insert_cost(levels, static_cast<double>(written));
        break;
      }
      case Operation::Kind::update:
        tree_.update(operation.key, operation.key + 1, log_);
        cost = update_cost(levels);
        break;
      case Operation::Kind::scan: {
        const std::size_t found =
            tree_.scan(operation.key, operation.scan_length, keys_.data(), values_.data(), log_);
        cost = scan_cost(levels, static_cast<double>(found));
        if (found > 0) {
          const std::uint32_t last = slice_of_key(keys_[found - 1], slices_);
          if (last > slice) {
            slice += static_cast<std::uint32_t>(routing_.below(last - slice + std::uint64_t{1}));
          }
        }
        break;
      }
    }
    builder_.add(log_, {slice, static_cast<std::uint8_t>(operation.kind),
                        worker_.instructions + cost.instructions,
                        worker_.branch_misses + cost.branch_misses});
  }

  BTree& tree_;
  std::uint32_t slices_;
  OperationGenerator generator_;
  Random routing_;  // of scans
  OperationCost worker_;
  TouchLog log_;
  std::vector<std::uint64_t> keys_, values_;
  TraceBuilder builder_;
};

}  // namespace

std::shared_ptr<const Trace> record_btree(const WorkloadSpec& spec, std::uint32_t slices,
                                          const TraceOptions& options) {
  validate(spec);
  validate(options, slices);
  const double bytes = tree_bytes(spec, slices, options);
  const double keys_bytes = static_cast<double>(spec.records) * sizeof(std::uint64_t);
  check({.index_bytes = bytes,
         .source_bytes = keys_bytes,
         .sorting_bytes = keys_bytes,
         .touches = 64.0,
         .pages = 20.0},
        spec.records, slices, options);
  BTree tree({.slices = slices, .huge_pages = suits_huge_pages(bytes, slices)});
  {
    std::vector<std::uint64_t> keys(spec.records);
    for (std::uint64_t record = 0; record < spec.records; ++record) {
      keys[record] = spec.space.key(record, spec.seed);
    }
    sort_keys(keys);
    tree.bulk_load(keys, keys, spec.seed);
  }
  return std::make_shared<const Trace>(
      Recorder(spec, slices, options, tree).record(options.queries));
}

}  // namespace pmoss::recording
