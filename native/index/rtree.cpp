// Queries and inserts.
#include "index/rtree.hpp"

#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

#include "index/rtree_node.hpp"
#include "index/rtree_split.hpp"

namespace pmoss {

using index_detail::box_kernel;
using index_detail::BoxKernel;
using index_detail::fetch_node;
using index_detail::joined;
using index_detail::relaxed_load;
using index_detail::relaxed_store;
using index_detail::RTreeEntry;
using index_detail::Shares;
using index_detail::split_entries;
using index_detail::Traced;
using index_detail::Untraced;

namespace {

constexpr std::uint32_t least_fanout = 8;
constexpr std::uint32_t most_fanout = 64;
// A node has at least 3 entries, so more levels would be more points than memory holds.
constexpr std::size_t most_levels = 24;
constexpr int attempts = 16;

const RTree::Options& checked(const RTree::Options& options) {
  const auto& grid = options.grid;
  if (grid.rows < 1 || grid.columns < 1 ||
      std::uint64_t{grid.rows} * grid.columns > std::uint64_t{65536}) {
    throw std::invalid_argument("the grid is " + std::to_string(grid.rows) + " x " +
                                std::to_string(grid.columns) + "; it must have 1 .. 65536 cells");
  }
  if (options.fanout < least_fanout || options.fanout > most_fanout) {
    throw std::invalid_argument("fanout is " + std::to_string(options.fanout) +
                                "; it must lie in " + std::to_string(least_fanout) + " .. " +
                                std::to_string(most_fanout));
  }
  return options;
}

class CountSink {
 public:
  void begin_cell() noexcept { before_ = points_; }
  void discard_cell() noexcept { points_ = before_; }
  template <class Tracer>
  void take(const index_detail::RTreeNode&, std::uint64_t hits, Tracer) noexcept {
    points_ += static_cast<std::uint64_t>(std::popcount(hits));
  }
  std::uint64_t points() const noexcept { return points_; }

 private:
  std::uint64_t points_ = 0;
  std::uint64_t before_ = 0;
};

class ValueSink {
 public:
  explicit ValueSink(std::vector<std::uint64_t>& values) : values_(values), start_(values.size()) {}
  void begin_cell() noexcept { before_ = values_.size(); }
  void discard_cell() noexcept { values_.resize(before_); }
  template <class Tracer>
  void take(const index_detail::RTreeNode& leaf, std::uint64_t hits, Tracer tracer) {
    const std::uint64_t* const words = leaf.words();
    for (; hits != 0; hits &= hits - 1) {
      const std::uint64_t& word = words[std::countr_zero(hits)];
      tracer.reads_ahead(&word, sizeof word);
      values_.push_back(relaxed_load(word));
    }
  }
  std::uint64_t points() const noexcept { return values_.size() - start_; }

 private:
  std::vector<std::uint64_t>& values_;
  std::size_t start_;
  std::size_t before_ = 0;
};

/// Goes down from a root to all leaves that the range touches; returns the number of nodes visited.
/// Children are fetched together, whole, before the first of them is looked at.
template <class Tracer, class Sink>
std::uint64_t walk(const index_detail::RTreeNode& root, const Rectangle& range, BoxKernel kernel,
                   Tracer tracer, Sink& sink) {
  using Node = index_detail::RTreeNode;
  std::array<const Node*, most_levels * most_fanout> waiting;
  const unsigned stride = relaxed_load(root.stride);
  tracer.reads(&root, sizeof root);
  tracer.reads_ahead(&root, Node::search_bytes(relaxed_load(root.level), stride));
  std::size_t depth = 0;
  waiting[depth++] = &root;
  std::uint64_t nodes = 0;
  while (depth > 0) {
    const Node& node = *waiting[--depth];
    ++nodes;
    std::uint64_t hits = node.matches(range, kernel);
    const unsigned level = relaxed_load(node.level);
    if (level == 0) {
      sink.take(node, hits, tracer);
      continue;
    }
    const std::size_t bytes = Node::search_bytes(level - 1, stride);
    const std::uint64_t* const words = node.words();
    // The one fetched first is the first to be looked at: on top of the stack.
    const std::size_t top = depth + static_cast<std::size_t>(std::popcount(hits));
    for (std::size_t place = top; hits != 0; hits &= hits - 1) {
      const std::uint64_t& word = words[std::countr_zero(hits)];
      tracer.reads_ahead(&word, sizeof word);
      const Node* const child = Node::as_node(relaxed_load(word));
      fetch_node(child, bytes);
      if (place == top) tracer.reads(child, sizeof *child);
      tracer.reads_ahead(child, bytes);
      waiting[--place] = child;
    }
    depth = top;
  }
  return nodes;
}

double area(const Rectangle& box) noexcept {
  return (static_cast<double>(box.x_high) - box.x_low + 1.0) *
         (static_cast<double>(box.y_high) - box.y_low + 1.0);
}

/// The child whose box grows least, of these the smallest (Guttman, SIGMOD 1984). A box that holds
/// the place does not grow, and all others do. So these alone are looked at where there are some.
unsigned choose_child(const index_detail::RTreeNode& node, const Rectangle& place) noexcept {
  const index_detail::Boxes boxes = node.boxes();
  std::uint64_t rest = node.matches(place, box_kernel());
  if (rest == 0) rest = ~std::uint64_t{0} >> (64 - node.count.load(std::memory_order_relaxed));
  unsigned best = 0;
  double best_growth = std::numeric_limits<double>::infinity();
  double best_area = best_growth;
  for (; rest != 0; rest &= rest - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(rest));
    const Rectangle box = boxes[i];
    const double before = area(box);
    const double growth = area(joined(box, place)) - before;
    if (growth < best_growth || (growth == best_growth && before < best_area)) {
      best = i;
      best_growth = growth;
      best_area = before;
    }
  }
  return best;
}

template <class Tracer>
void trace_entry_write(index_detail::RTreeNode& node, unsigned i, Tracer tracer) noexcept {
  for (unsigned s = 0; s < node.sides_of(node.level); ++s) {
    tracer.writes(node.side(s) + i, sizeof(std::uint32_t));
  }
  tracer.writes(node.words() + i, sizeof(std::uint64_t));
  tracer.writes(&node, sizeof node);
}

}  // namespace

RTree::RTree(const Options& options)
    : grid_(checked(options).grid),
      fanout_(options.fanout),
      pool_(std::make_shared<ChunkPool>(options.huge_pages)),
      roots_(grid_.slices()) {
  slices_.reserve(roots_.size());
  for (std::size_t s = 0; s < roots_.size(); ++s) {
    slices_.push_back(std::make_unique<SliceMemory>(pool_, options.placement));
  }
}

RTree::~RTree() = default;

template <class Tracer, class Sink>
RTree::Work RTree::search(const Rectangle& range, Tracer tracer, Sink& sink) const {
  Work work;
  if (range.x_low > range.x_high || range.y_low > range.y_high) return work;
  const EpochGuard guard;
  const BoxKernel kernel = box_kernel();
  const std::uint32_t last_row = grid_.row_of(range.y_high);
  const std::uint32_t last_column = grid_.column_of(range.x_high);
  for (std::uint32_t row = grid_.row_of(range.y_low); row <= last_row; ++row) {
    for (std::uint32_t column = grid_.column_of(range.x_low); column <= last_column; ++column) {
      const Root& slot = roots_[row * grid_.columns + column];
      ++work.cells;
      tracer.reads(&slot, sizeof slot);
      Backoff backoff;
      for (int attempt = 0;; ++attempt) {
        Node* const root = slot.load(std::memory_order_acquire);
        if (root == nullptr) break;
        std::unique_lock<Node> lock;
        if (attempt == attempts) lock = std::unique_lock(*root);
        const std::uint64_t splits = root->read_begin();
        sink.begin_cell();
        work.nodes += walk(*root, range, kernel, tracer, sink);
        // A new root above this one would have more than this one's points.
        if (root->read_valid(splits) && slot.load(std::memory_order_relaxed) == root) break;
        sink.discard_cell();
        if (attempt == attempts) --attempt;  // locked an old root: once more
        backoff.pause();
      }
    }
  }
  work.points = sink.points();
  return work;
}

std::uint64_t RTree::count(const Rectangle& range) const noexcept {
  CountSink sink;
  return search(range, Untraced{}, sink).points;
}

template <class Tracer>
RTree::Work RTree::find_with(const Rectangle& range, std::vector<std::uint64_t>& values,
                             Tracer tracer) const {
  ValueSink sink(values);
  return search(range, tracer, sink);
}

RTree::Work RTree::find_alone(const Rectangle& range, std::vector<std::uint64_t>& values) const {
  return find_with(range, values, Untraced{});
}

RTree::Work RTree::find(const Rectangle& range, std::vector<std::uint64_t>& values,
                        TouchLog& log) const {
  return find_with(range, values, Traced(log));
}

RTree::Node* RTree::new_node(SliceArena& arena, unsigned level) const {
  const unsigned stride = Node::stride_of(fanout_);
  auto* const node = static_cast<Node*>(arena.allocate(Node::bytes(level, stride)));
  node->clear(level, stride);
  return node;
}

/// A node of each level from the leaves up; all or none.
void RTree::make_nodes(std::uint32_t slice, std::span<Node*> nodes) {
  SliceArena& arena = slices_[slice]->current();
  unsigned level = 0;
  try {
    for (; level < nodes.size(); ++level) nodes[level] = new_node(arena, level);
  } catch (const std::bad_alloc&) {
    while (level-- > 0) {
      arena.take_back(nodes[level], Node::bytes(level, Node::stride_of(fanout_)));
    }
    throw;
  }
}

/// A lock of its own, for there is no node yet whose lock a migration would wait for.
void RTree::make_first_root(std::uint32_t slice) {
  const std::lock_guard lock(first_root_);
  Root& slot = roots_[slice];
  if (slot.load(std::memory_order_relaxed) != nullptr) return;
  slot.store(new_node(slices_[slice]->current(), 0), std::memory_order_release);
}

/// The root of the slice, locked for writing; makes it if there is none.
template <class Tracer>
RTree::Node* RTree::lock_root(std::uint32_t slice, Tracer tracer) {
  Root& slot = roots_[slice];
  tracer.reads(&slot, sizeof slot);
  for (;;) {
    Node* root = slot.load(std::memory_order_acquire);
    if (root == nullptr) {
      tracer.writes(&slot, sizeof slot);
      make_first_root(slice);
      root = slot.load(std::memory_order_acquire);
    }
    root->lock();
    if (slot.load(std::memory_order_relaxed) == root) {
      tracer.locks(root, sizeof *root);
      return root;
    }
    root->unlock();
  }
}

template <class Tracer>
void RTree::insert_into(std::uint32_t slice, Node& root, Point point, std::uint64_t value,
                        Tracer tracer) {
  struct Step {
    Node* node;
    unsigned child;
  };
  std::array<Step, most_levels> path;
  const Rectangle place = {point.x, point.y, point.x, point.y};
  std::size_t depth = 0;
  Node* node = &root;
  for (; node->level > 0; ++depth) {
    tracer.reads(node, sizeof *node);
    tracer.reads_ahead(node, Node::search_bytes(node->level, node->stride));
    const unsigned i = choose_child(*node, place);
    const Rectangle before = node->box(i);
    const Rectangle after = joined(before, place);
    if (after != before) {
      for (unsigned s = 0; s < 4; ++s) tracer.writes(node->side(s) + i, sizeof(std::uint32_t));
      node->set_box(i, after);
    }
    path[depth] = {node, i};
    tracer.reads(node->words() + i, sizeof(std::uint64_t));
    const std::size_t bytes = Node::bytes(node->level - 1, node->stride);
    node = Node::as_node(node->words()[i]);
    fetch_node(node, bytes);  // a full one is read and written as a whole
  }
  tracer.reads(node, sizeof *node);
  if (node->count.load(std::memory_order_relaxed) < fanout_) {
    trace_entry_write(*node, node->count.load(std::memory_order_relaxed), tracer);
    node->append(place, value);
    return;
  }

  // All the memory first, so that a lack of it leaves the tree as it was.
  std::array<Node*, most_levels + 1> fresh;
  std::size_t full = depth;
  while (full > 0 && path[full - 1].node->count.load(std::memory_order_relaxed) == fanout_) --full;
  const std::size_t wanted = depth - full + (full == 0 ? 2 : 1);  // a new root, too
  make_nodes(slice, {fresh.data(), wanted});
  for (std::size_t i = 0; i < wanted; ++i) {
    fetch_node(fresh[i], Node::bytes(fresh[i]->level, root.stride));
  }

  root.begin_split();
  std::array<RTreeEntry, most_fanout + 1> entries;
  RTreeEntry entry = {place, value};
  for (std::size_t used = 0;;) {
    const unsigned n = node->count.load(std::memory_order_relaxed);
    if (n < fanout_) {
      trace_entry_write(*node, n, tracer);
      node->append(entry.box, entry.word);
      break;
    }
    Node* const sibling = fresh[used++];
    const std::size_t bytes = Node::bytes(node->level, node->stride);
    tracer.reads_ahead(node, bytes);
    tracer.writes(node, bytes);
    tracer.writes(sibling, bytes);
    const index_detail::Boxes boxes = node->boxes();
    const std::uint64_t* const words = node->words();
    for (unsigned i = 0; i < n; ++i) entries[i] = {boxes[i], relaxed_load(words[i])};
    entries[n] = entry;
    const Shares shares = split_entries({entries.data(), n + std::size_t{1}});
    sibling->set_entries({entries.data() + shares.first, n + 1 - shares.first});
    node->set_entries({entries.data(), shares.first});
    // Before any word that leads there.
    std::atomic_thread_fence(std::memory_order_release);
    if (node == &root) {
      Node* const above = fresh[used];
      tracer.writes(above, Node::bytes(above->level, above->stride));
      tracer.writes(&roots_[slice], sizeof(Root));
      above->append(shares.left, Node::as_word(node));
      above->append(shares.right, Node::as_word(sibling));
      roots_[slice].store(above, std::memory_order_release);
      break;
    }
    const Step step = path[--depth];
    step.node->set_box(step.child, shares.left);
    for (unsigned s = 0; s < 4; ++s) {
      tracer.writes(step.node->side(s) + step.child, sizeof(std::uint32_t));
    }
    entry = {shares.right, Node::as_word(sibling)};
    node = step.node;
  }
  root.end_split();
}

template <class Tracer>
void RTree::insert_with(Point point, std::uint64_t value, Tracer tracer) {
  const EpochGuard guard;
  const std::uint32_t slice = grid_.slice_of(point);
  Node* const root = lock_root(slice, tracer);
  const std::unique_lock lock(*root, std::adopt_lock);
  insert_into(slice, *root, point, value, tracer);
  slices_[slice]->size.fetch_add(1, std::memory_order_relaxed);
}

void RTree::insert(Point point, std::uint64_t value) { insert_with(point, value, Untraced{}); }

void RTree::insert(Point point, std::uint64_t value, TouchLog& log) {
  insert_with(point, value, Traced(log));
}

std::uint64_t RTree::size() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& slice : slices_) sum += slice->size.load(std::memory_order_relaxed);
  return sum;
}

std::uint64_t RTree::slice_size(std::uint32_t slice) const {
  return slices_.at(slice)->size.load(std::memory_order_relaxed);
}

unsigned RTree::height(std::uint32_t slice) const {
  const EpochGuard guard;
  const Node* const node = root(slice);
  return node == nullptr ? 0 : relaxed_load(node->level) + 1;
}

const index_detail::RTreeNode* RTree::root(std::uint32_t slice) const {
  return roots_.at(slice).load(std::memory_order_acquire);
}

ChunkView RTree::root_table() const noexcept {
  return {reinterpret_cast<std::uintptr_t>(roots_.data()), roots_.size() * sizeof roots_[0]};
}

const SliceArena& RTree::arena(std::uint32_t slice) const { return slices_.at(slice)->current(); }

void RTree::prefetch(Point point) const noexcept {
  const Node* const root = roots_[grid_.slice_of(point)].load(std::memory_order_acquire);
  if (root == nullptr) return;
  // The size of an inner node: its level is not known before it is there.
  fetch_node(root, Node::search_bytes(1, Node::stride_of(fanout_)));
}

}  // namespace pmoss
