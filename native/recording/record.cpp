#include "recording/record.hpp"

#include <algorithm>
#include <vector>

#include "index/btree.hpp"
#include "recording/record_keys.hpp"
#include "recording/recording_size.hpp"

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

/// What an operation costs depends on the levels that it finds.
struct Cost {
  const BTree& tree;

  auto operator()(std::uint32_t slice) const {
    const double levels = tree.height(slice);
    return [levels](Operation::Kind kind, const TouchLog& log, std::size_t results) {
      switch (kind) {
        case Operation::Kind::insert:
          return insert_cost(levels, static_cast<double>(std::count_if(
                                         log.entries().begin(), log.entries().end(),
                                         [](TouchLog::Entry entry) { return entry.writes(); })));
        case Operation::Kind::update:
          return update_cost(levels);
        case Operation::Kind::scan:
          return scan_cost(levels, static_cast<double>(results));
        case Operation::Kind::lookup:
          break;
      }
      return lookup_cost(levels);
    };
  }
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
    const std::vector<std::uint64_t> keys = keys_of_instance(spec);
    tree.bulk_load(keys, keys, spec.seed);
  }
  return std::make_shared<const Trace>(
      KeyRecorder(spec, options, tree, Cost{tree}).record(options.queries));
}

}  // namespace pmoss::recording
