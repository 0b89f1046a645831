// What a query on the B+-tree or the R-tree costs the processor besides waiting for memory.
//
// Fitted to counts by callgrind 3.19 of the AVX2 code (bench/operation_cost.cpp has the command):
//
//   instructions in the tree   1 level   2 levels   3 levels
//   lookup                          89        141        193
//   update                         138        186        234
//   insert, 27 lines written       586        673        716
//   scan of 50 entries                        517        566   (100: 840, 400: 2476)
//   insert into small leaves: 277 with 7.6 lines written, 339 with 10.5, 411 with 15.4
//
// A scan took these when it copied word by word. With memcpy() one of 50 entries takes 414 in two
// levels and 470 in three. The formula is as it was fitted: simulated results depend on it, and
// they keep their bits as long as their ids.
//
// Mispredictions per operation by callgrind's predictor: lookup and update 0.0, insert 4.5, scan of
// 1 .. 100 entries 4.5 and of 400 entries 11.5. The fits are within 5 % of these instructions.
//
// For the R-tree (fanout 50, AVX2; bench/rtree_cost.cpp has the command):
//
//   nodes visited by a range     3.8     6.0     8.0     9.3    16.4
//   points found                   8      14      50      67     250
//   instructions                1108    1793    2795    3427    7772
//   mispredictions               7.6    14.7    19.9    23.4    38.4
//
//   levels passed by an insert     2       3       3       4       4
//   lines written                5.2     5.3     6.7     5.8     6.1
//   instructions                1193    1974    2834    3544    4289
//   mispredictions               4.6     9.1    18.9    17.3    18.6
//
// The fits are within 5 % of a range's instructions and 20 % of an insert's, which choose one of
// more or fewer children at each level. Since then ranges go down level by level and copy values by
// vectors, and inserts look at fewer boxes and sort without branches. In a tree of 100,000 points
// ranges of 60, 312 and 853 points take 3275, 9162 and 21173 instructions; the formula's are 3120,
// 9207 and 21593. An insert takes 2114 instead of 5627. These formulas, too, are as they were
// fitted.
#pragma once

#include <algorithm>

namespace pmoss {

struct OperationCost {
  double instructions;
  double branch_misses;
};

/// What a worker adds to each query: taking it from the queue, finding its kind, accounting for it
/// (callgrind of runtime::Runner with full queues: 85 instructions in Worker::run() and 45 in
/// account()). Guessing the commonest kind is wrong for all others; `largest_share` is its share.
constexpr OperationCost worker_cost(double largest_share) noexcept {
  return {130.0, 1.0 - largest_share};
}

/// `levels` of the tree that are passed, 1 for a single leaf.
constexpr OperationCost lookup_cost(double levels) noexcept { return {37.0 + 52.0 * levels, 0.0}; }

constexpr OperationCost update_cost(double levels) noexcept { return {90.0 + 48.0 * levels, 0.0}; }

/// `written_lines`: cache lines that change. Those are the lines of the keys and values moved, the
/// node's head and its samples. Where a node splits, the lines of both halves and of the parent
/// count.
constexpr OperationCost insert_cost(double levels, double written_lines) noexcept {
  return {113.0 + 65.0 * levels + 15.0 * written_lines, 4.5};
}

/// `entries` copied out, keys and values, and each value used once by the worker (5 instructions).
constexpr OperationCost scan_cost(double levels, double entries) noexcept {
  return {138.0 + 52.0 * levels + (5.5 + 5.0) * entries, 3.6 + 0.018 * entries};
}

/// A range of the R-tree: `nodes` visited in all cells that it overlaps, `points` found, each value
/// copied out and used once by the worker.
constexpr OperationCost range_cost(double nodes, double points) noexcept {
  return {270.0 * nodes + (13.2 + 5.0) * points, 2.4 * nodes};
}

/// An insert into the R-tree, splits of nodes included; `written_lines` as in insert_cost().
constexpr OperationCost point_insert_cost(double levels, double written_lines) noexcept {
  return {std::max(1100.0 * levels + 450.0 * written_lines - 3340.0, 300.0), 6.0 * levels - 6.0};
}

}  // namespace pmoss
