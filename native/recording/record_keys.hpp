// Recording any index of 64-bit keys while it serves a workload.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "index/operation_cost.hpp"
#include "recording/sort_keys.hpp"
#include "recording/trace_builder.hpp"
#include "workload/generator.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::recording {

/// The keys of an instance's records, in ascending order.
inline std::vector<std::uint64_t> keys_of_instance(const WorkloadSpec& spec) {
  std::vector<std::uint64_t> keys(spec.records);
  for (std::uint64_t record = 0; record < spec.records; ++record) {
    keys[record] = spec.space.key(record, spec.seed);
  }
  sort_keys(keys);
  return keys;
}

/// Runs operations on a loaded index and adds each to a trace. A query runs on the core of its
/// key's slice; a scan on that of any slice that it reads from, drawn with the seed.
///
/// `Tree` has slices(), arena(slice) and root_table(), and the operations of BTree that log what
/// they touch. `Cost` tells what a query takes besides waiting for memory. cost(slice) is called
/// before an operation; what it returns is called after it, with the kind of the operation, the log
/// and the number of entries found, and returns an OperationCost.
template <class Tree, class Cost>
class KeyRecorder {
 public:
  KeyRecorder(const WorkloadSpec& spec, const TraceOptions& options, Tree& tree, Cost cost)
      : tree_(tree),
        cost_(cost),
        generator_(spec, options.seed, spec.records, 1),
        routing_(mix64(mix64(~spec.seed) + options.seed)),
        worker_(worker_cost(main_share(spec))),
        keys_(longest_scan(spec, options)),
        values_(keys_.size()),
        builder_(
            tree.slices(), options,
            [&tree](std::uint32_t slice) -> const SliceArena& { return tree.arena(slice); },
            tree.root_table()) {}

  Trace record(std::uint64_t queries) {
    for (std::uint64_t left = queries; left > 0;) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(left, batch));
      std::array<Operation, batch> operations;
      for (std::size_t i = 0; i < n; ++i) operations[i] = generator_.next();
      if constexpr (requires { &Tree::lookup_batch; }) fetch(operations, n);
      for (std::size_t i = 0; i < n; ++i) run(operations[i]);
      left -= n;
    }
    return builder_.finish();
  }

 private:
  static constexpr std::size_t batch = 64;

  /// Entries that one scan may find.
  static std::size_t longest_scan(const WorkloadSpec& spec, const TraceOptions& options) {
    if (spec.scan == 0.0) return 0;
    return std::min<std::uint64_t>(spec.max_scan_length, spec.records + options.queries);
  }

  /// Only to have the way to each key in the cache, with the misses overlapped.
  void fetch(const std::array<Operation, batch>& operations, std::size_t n) {
    std::array<std::uint64_t, batch> keys, ignored;
    std::array<bool, batch> ignored_found;
    for (std::size_t i = 0; i < n; ++i) keys[i] = operations[i].key;
    tree_.lookup_batch(keys.data(), n, ignored.data(), ignored_found.data());
  }

  void run(const Operation& operation) {
    log_.clear();
    std::uint32_t slice = slice_of_key(operation.key, tree_.slices());
    const auto cost_of = cost_(slice);
    std::size_t results = 0;
    switch (operation.kind) {
      case Operation::Kind::lookup: {
        std::uint64_t value = 0;
        results = tree_.lookup(operation.key, value, log_) ? 1 : 0;
        break;
      }
      case Operation::Kind::insert:
        tree_.insert(operation.key, operation.key, log_);
        break;
      case Operation::Kind::update:
        results = tree_.update(operation.key, operation.key + 1, log_) ? 1 : 0;
        break;
      case Operation::Kind::scan:
        results =
            tree_.scan(operation.key, operation.scan_length, keys_.data(), values_.data(), log_);
        if (results > 0) {
          const std::uint32_t last = slice_of_key(keys_[results - 1], tree_.slices());
          if (last > slice) {
            slice += static_cast<std::uint32_t>(routing_.below(last - slice + std::uint64_t{1}));
          }
        }
        break;
    }
    const OperationCost cost = cost_of(operation.kind, log_, results);
    builder_.add(log_, {slice, static_cast<std::uint8_t>(operation.kind),
                        worker_.instructions + cost.instructions,
                        worker_.branch_misses + cost.branch_misses});
  }

  Tree& tree_;
  Cost cost_;
  OperationGenerator generator_;
  Random routing_;  // of scans
  OperationCost worker_;
  TouchLog log_;
  std::vector<std::uint64_t> keys_, values_;
  TraceBuilder builder_;
};

}  // namespace pmoss::recording
