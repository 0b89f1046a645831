// Filling an empty tree at once: sort-tile-recursive packing, slice by slice.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>

#include "index/rtree.hpp"
#include "index/rtree_node.hpp"
#include "index/rtree_split.hpp"
#include "workload/random.hpp"

namespace pmoss {

using index_detail::cover;
using index_detail::RTreeEntry;

namespace {

struct LoadedPoint {
  Point point;
  std::uint64_t value;
};

// A total order, so that all sorts give the same.
auto by_x(const LoadedPoint& p) { return std::tuple(p.point.x, p.point.y, p.value); }
auto by_y(const LoadedPoint& p) { return std::tuple(p.point.y, p.point.x, p.value); }
auto by_x(const RTreeEntry& e) {
  return std::tuple(std::uint64_t{e.box.x_low} + e.box.x_high,
                    std::uint64_t{e.box.y_low} + e.box.y_high, e.box.x_low, e.box.y_low);
}
auto by_y(const RTreeEntry& e) {
  return std::tuple(std::uint64_t{e.box.y_low} + e.box.y_high,
                    std::uint64_t{e.box.x_low} + e.box.x_high, e.box.y_low, e.box.x_low);
}

RTreeEntry as_entry(const LoadedPoint& p) {
  return {{p.point.x, p.point.y, p.point.x, p.point.y}, p.value};
}
RTreeEntry as_entry(const RTreeEntry& e) { return e; }

/// Cuts `entries` into tiles of `capacity` entries or a few less on average and calls `take(tile)`
/// for each: slabs of columns, each cut into rows. As far as the fanout and the least that a split
/// leaves allow, tiles get different numbers of entries, as inserts would have it; otherwise all
/// leaves would be full at the same time.
template <class Entry, class Take>
void tile(std::span<Entry> entries, std::size_t capacity, std::size_t fanout, Take take) {
  const std::size_t tiles = (entries.size() + capacity - 1) / capacity;
  const auto slabs = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(tiles))));
  const std::size_t mean = entries.size() / tiles;
  const std::size_t least = fanout * 2 / 5;
  // Both ends of a tile move by up to half of the room, and the mean may be one more.
  const std::size_t room =
      std::min(fanout - std::min(mean + 1, fanout), mean - std::min(mean, least));
  const auto start = [&](std::size_t t) {
    const std::size_t even = t * entries.size() / tiles;
    if (t == 0 || t == tiles) return even;
    return even - room / 2 + scale64(mix64(t), room / 2 * 2 + 1);
  };
  const auto first_of_slab = [&](std::size_t s) { return s * tiles / slabs; };
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return by_x(a) < by_x(b); });
  for (std::size_t s = 0; s < slabs; ++s) {
    const std::size_t from = start(first_of_slab(s));
    const auto slab = entries.subspan(from, start(first_of_slab(s + 1)) - from);
    std::sort(slab.begin(), slab.end(),
              [](const Entry& a, const Entry& b) { return by_y(a) < by_y(b); });
  }
  for (std::size_t t = 0; t < tiles; ++t) take(entries.subspan(start(t), start(t + 1) - start(t)));
}

}  // namespace

struct RTree::Loader {
  RTree& tree;
  std::size_t capacity;  // entries of a node

  template <class Entry>
  std::vector<RTreeEntry> pack(std::uint32_t slice, unsigned level, std::span<Entry> entries) {
    std::vector<RTreeEntry> nodes;
    tile(entries, capacity, tree.fanout_, [&](std::span<Entry> part) {
      Node* const node = tree.new_node(tree.slices_[slice]->current(), level);
      for (const Entry& entry : part) {
        const RTreeEntry plain = as_entry(entry);
        node->append(plain.box, plain.word);
      }
      nodes.push_back({cover(*node), Node::as_word(node)});
    });
    return nodes;
  }

  void load(std::uint32_t slice, std::span<LoadedPoint> points) {
    if (points.empty()) return;
    std::vector<RTreeEntry> nodes = pack(slice, 0, points);
    for (unsigned level = 1; nodes.size() > 1; ++level) {
      nodes = pack(slice, level, std::span<RTreeEntry>(nodes));
    }
    tree.roots_[slice].store(Node::as_node(nodes[0].word), std::memory_order_release);
    tree.slices_[slice]->size.store(points.size(), std::memory_order_relaxed);
  }
};

namespace {

void check(std::span<const Point> points, std::span<const std::uint64_t> values, double fill,
           std::uint64_t stored) {
  if (points.size() != values.size()) {
    throw std::invalid_argument(std::to_string(points.size()) + " points and " +
                                std::to_string(values.size()) +
                                " values were given; there must be equally many");
  }
  if (!(fill >= 0.4 && fill <= 1.0)) {
    throw std::invalid_argument("fill is " + std::to_string(fill) + "; it must lie in 0.4 .. 1");
  }
  if (stored != 0) throw std::logic_error("a tree can be bulk-loaded only while it is empty");
}

}  // namespace

void RTree::bulk_load_slice(std::uint32_t slice, std::span<const Point> points,
                            std::span<const std::uint64_t> values, double fill) {
  check(points, values, fill, slice_size(slice));
  std::vector<LoadedPoint> loaded(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) loaded[i] = {points[i], values[i]};
  Loader{*this, static_cast<std::size_t>(fanout_ * fill)}.load(slice, loaded);
}

void RTree::bulk_load(std::span<const Point> points, std::span<const std::uint64_t> values,
                      double fill) {
  check(points, values, fill, size());
  std::vector<std::size_t> end(slices() + std::size_t{1}, 0);  // of each slice, shifted by one
  for (const Point& point : points) ++end[grid_.slice_of(point) + 1];
  for (std::size_t s = 1; s < end.size(); ++s) end[s] += end[s - 1];
  std::vector<LoadedPoint> sorted(points.size());
  {
    std::vector<std::size_t> next(end.begin(), end.end() - 1);
    for (std::size_t i = 0; i < points.size(); ++i) {
      sorted[next[grid_.slice_of(points[i])]++] = {points[i], values[i]};
    }
  }
  Loader loader{*this, static_cast<std::size_t>(fanout_ * fill)};
  for (std::uint32_t slice = 0; slice < slices(); ++slice) {
    loader.load(slice, std::span(sorted).subspan(end[slice], end[slice + 1] - end[slice]));
  }
}

}  // namespace pmoss
