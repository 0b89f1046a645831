// The layout of the B+-tree's nodes (index/node.hpp), and how full random inserts leave them.
#pragma once

#include "index/node.hpp"

namespace pmoss::analytic::btree_layout {

// Leaves and inner nodes are alike: a line with version and count, the samples, then keys and words
// side by side.
inline constexpr double line_bytes = 64.0;
inline constexpr double capacity = index_detail::leaf_capacity;
inline constexpr double keys_per_line = index_detail::group_keys;
inline constexpr double sample_lines = sizeof(index_detail::Node::samples) / line_bytes;
inline constexpr double header_lines = 1.0 + sample_lines;
inline constexpr double node_bytes = sizeof(index_detail::Node);

// Random inserts leave fills with the density 1 / x^2 between a half and 1. Of all leaves they are
// ln 2 on average; of those that a random key meets, where full ones count for more, 1 / (2 ln 2).
inline constexpr double fill = 0.6931471805599453;
inline constexpr double met_fill = 0.5 / fill;
inline constexpr double splits_per_insert = 1.0 / (0.5 * capacity);

}  // namespace pmoss::analytic::btree_layout
