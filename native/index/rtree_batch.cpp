// Ranges that are asked together, their cache misses overlapped.
#include <algorithm>
#include <array>
#include <bit>

#include "index/rtree.hpp"
#include "index/rtree_node.hpp"

namespace pmoss {

using index_detail::copied_beyond;
using index_detail::fetch_node;
using index_detail::line_bytes;
using index_detail::line_coordinates;
using index_detail::range_kernels;
using index_detail::RangeKernels;
using index_detail::relaxed_load;

/// Up to `together` ranges on their way down. All nodes of a level are looked at before those of
/// the next one. So a node, and the values of a leaf, have been fetched for some time when they are
/// read. Everything is in the order of the ranges.
struct RTree::Descent {
  static constexpr std::size_t most_cells = 256;
  static constexpr std::size_t most_nodes = 1024;
  static constexpr std::size_t most_children = 64;
  static constexpr std::size_t ahead = 6;  // leaves whose points are on their way

  struct Cell {
    const Root* slot;
    const Node* root;
    std::uint64_t splits;
    std::size_t range;

    bool is_valid() const noexcept {
      return root->read_valid(splits) && slot->load(std::memory_order_relaxed) == root;
    }
  };
  struct Visit {
    const Node* node;
    std::size_t range;
    std::uint64_t hits;
  };
  /// The nodes of one level, and leaves that lie higher.
  struct Level {
    std::array<Visit, most_nodes> visits;
    std::size_t size;
  };

  const RTree& tree;
  std::span<const Rectangle> ranges;
  Work& work;
  const RangeKernels& kernels = range_kernels();
  unsigned stride = Node::stride_of(tree.fanout_);
  std::size_t cell_count = 0;
  std::array<Cell, most_cells> cells;
  std::array<Level, 2> levels;

  // Leaves the arrays as they are.
  Descent(const RTree& its_tree, std::span<const Rectangle> its_ranges, Work& its_work) noexcept
      : tree(its_tree), ranges(its_ranges), work(its_work) {}

  /// Fetches what a root of few entries needs, as most roots are: the first line of each side, and
  /// of the children, for which the way down would wait once more. A whole node is more lines than
  /// some processors fetch at a time.
  void fetch_root(const Node* root) const noexcept {
    const auto* const first = reinterpret_cast<const char*>(root);
    const std::size_t side_bytes = stride * sizeof(std::uint32_t);
    const char* const sides = first + sizeof(Node);
    const char* const words = first + Node::search_bytes(1, stride);
    __builtin_prefetch(first);
    for (unsigned s = 0; s < 4; ++s) __builtin_prefetch(sides + s * side_bytes);
    __builtin_prefetch(words);
    __builtin_prefetch(words + line_bytes);
  }

  /// Finds the roots; false if there are too many.
  bool enter() noexcept {
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const Rectangle& range = ranges[r];
      if (range.x_low > range.x_high || range.y_low > range.y_high) continue;
      const Grid& grid = tree.grid_;
      const std::uint32_t last_row = grid.row_of(range.y_high);
      const std::uint32_t last_column = grid.column_of(range.x_high);
      for (std::uint32_t row = grid.row_of(range.y_low); row <= last_row; ++row) {
        for (std::uint32_t column = grid.column_of(range.x_low); column <= last_column; ++column) {
          const Root& slot = tree.roots_[row * grid.columns + column];
          ++work.cells;
          const Node* const root = slot.load(std::memory_order_acquire);
          if (root == nullptr) continue;
          if (cell_count == most_cells) return false;
          fetch_root(root);
          cells[cell_count++] = {&slot, root, 0, r};
        }
      }
    }
    return true;
  }

  /// The leaves that the ranges touch; null if there are too many nodes.
  Level* descend() noexcept {
    Level* from = &levels[0];
    Level* to = &levels[1];
    bool inner = false;
    for (std::size_t c = 0; c < cell_count; ++c) {
      Cell& cell = cells[c];
      cell.splits = cell.root->read_begin();
      from->visits[c] = {cell.root, cell.range, 0};
      inner |= relaxed_load(cell.root->level) > 0;
    }
    from->size = cell_count;
    for (work.nodes += cell_count; inner; std::swap(from, to)) {
      inner = false;
      to->size = 0;
      for (std::size_t v = 0; v < from->size; ++v) {
        if (to->size + most_children > most_nodes) return nullptr;
        const Visit& visit = from->visits[v];
        const unsigned level = relaxed_load(visit.node->level);
        if (level == 0) {
          to->visits[to->size++] = visit;
          continue;
        }
        inner |= level > 1;
        const bool at_once = level > 1 || !fetches_late();
        // Of an inner node its words, too: some of them are read at once.
        const std::size_t bytes =
            level > 1 ? Node::bytes(level - 1, stride) : Node::search_bytes(0, stride);
        const std::uint64_t* const words = visit.node->words();
        std::uint64_t hits = visit.node->matches(ranges[visit.range], kernels.boxes);
        for (; hits != 0; hits &= hits - 1) {
          const Node* const child = Node::as_node(relaxed_load(words[std::countr_zero(hits)]));
          if (at_once) fetch_node(child, bytes);
          to->visits[to->size++] = {child, visit.range, 0};
          ++work.nodes;
        }
      }
    }
    return from;
  }

  /// Whether match() fetches the leaves. All those of a batch are more lines than a processor
  /// fetches at a time, and it would only wait for them. A single range has few, and none to spare.
  bool fetches_late() const noexcept { return ranges.size() > 1; }

  /// Finds the points, and fetches their values.
  void match(Level& leaves) noexcept {
    constexpr unsigned line_words = line_coordinates / 2;
    const std::size_t leaf_bytes = Node::search_bytes(0, stride);
    const std::size_t late = fetches_late() ? leaves.size : 0;
    for (std::size_t v = 0; v < std::min(ahead, late); ++v) {
      fetch_node(leaves.visits[v].node, leaf_bytes);
    }
    for (std::size_t v = 0; v < leaves.size; ++v) {
      if (v + ahead < late) fetch_node(leaves.visits[v + ahead].node, leaf_bytes);
      Visit& visit = leaves.visits[v];
      visit.hits = visit.node->leaf_matches(ranges[visit.range], stride, kernels.points);
      if (visit.hits == 0) continue;
      const std::uint64_t* const words = visit.node->leaf_words(stride);
      const unsigned last = 63 - static_cast<unsigned>(std::countl_zero(visit.hits));
      unsigned word = static_cast<unsigned>(std::countr_zero(visit.hits)) / line_words * line_words;
      for (; word <= last; word += line_words) __builtin_prefetch(words + word);
    }
  }

  void collect(const Level& leaves, std::vector<std::uint64_t>& values, std::size_t* ends) const {
    std::size_t v = 0;
    std::size_t c = 0;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      const std::size_t start = values.size();
      std::size_t hits = 0;
      for (std::size_t w = v; w < leaves.size && leaves.visits[w].range == r; ++w) {
        hits += static_cast<std::size_t>(std::popcount(leaves.visits[w].hits));
      }
      values.resize(start + hits + copied_beyond);
      std::uint64_t* to = values.data() + start;
      for (; v < leaves.size && leaves.visits[v].range == r; ++v) {
        const Visit& visit = leaves.visits[v];
        to = kernels.copy(visit.node->leaf_words(stride), visit.hits, to);
      }
      values.resize(start + hits);
      bool valid = true;
      for (; c < cell_count && cells[c].range == r; ++c) valid = valid && cells[c].is_valid();
      if (!valid) {
        values.resize(start);
        work.nodes += tree.find_alone(ranges[r], values).nodes;
      }
      ends[r] = values.size();
      work.points += values.size() - start;
    }
  }
};

/// False, and nothing found, if the ranges overlap too many cells or nodes.
bool RTree::find_together(std::span<const Rectangle> ranges, std::vector<std::uint64_t>& values,
                          std::size_t* ends, Work& work) const {
  const EpochGuard guard;
  Descent descent(*this, ranges, work);
  if (!descent.enter()) return false;
  Descent::Level* const leaves = descent.descend();
  if (leaves == nullptr) return false;
  descent.match(*leaves);
  descent.collect(*leaves, values, ends);
  return true;
}

RTree::Work RTree::find(const Rectangle& range, std::vector<std::uint64_t>& values) const {
  Work work;
  std::size_t end;
  return find_together({&range, 1}, values, &end, work) ? work : find_alone(range, values);
}

void RTree::find_batch(std::span<const Rectangle> ranges, std::vector<std::uint64_t>& values,
                       std::size_t* ends) const {
  for (std::size_t start = 0; start < ranges.size(); start += together) {
    const auto part = ranges.subspan(start, std::min(together, ranges.size() - start));
    Work work;
    if (find_together(part, values, ends + start, work)) continue;
    for (std::size_t r = 0; r < part.size(); ++r) {
      find(part[r], values);
      ends[start + r] = values.size();
    }
  }
}

}  // namespace pmoss
