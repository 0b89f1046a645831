// What an operation on the B+-tree costs the processor besides waiting for memory.
#pragma once

namespace pmoss {

struct OperationCost {
  double instructions;
  double branch_misses;
};

/// `levels` of the tree that are passed, 1 for a single leaf.
constexpr OperationCost lookup_cost(double levels) noexcept { return {200.0 + 45.0 * levels, 1.0}; }

constexpr OperationCost update_cost(double levels) noexcept { return {220.0 + 45.0 * levels, 1.0}; }

/// `written_lines`: cache lines that change, those of the entries moved and of splits included.
constexpr OperationCost insert_cost(double levels, double written_lines) noexcept {
  return {260.0 + 45.0 * levels + 8.0 * written_lines, 2.0};
}

/// `entries` read, with keys and values, from `leaves` leaves.
constexpr OperationCost scan_cost(double levels, double entries, double leaves) noexcept {
  return {200.0 + 45.0 * levels + 4.0 * entries + 40.0 * leaves, 1.0 + leaves};
}

}  // namespace pmoss
