#include "index/rtree_split.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "index/rtree_node.hpp"

namespace pmoss::index_detail {
namespace {

constexpr std::size_t most_entries = 65;

double width(const Rectangle& box) { return static_cast<double>(box.x_high) - box.x_low; }
double height(const Rectangle& box) { return static_cast<double>(box.y_high) - box.y_low; }

double overlap(const Rectangle& a, const Rectangle& b) {
  const double x = static_cast<double>(std::min(a.x_high, b.x_high)) - std::max(a.x_low, b.x_low);
  const double y = static_cast<double>(std::min(a.y_high, b.y_high)) - std::max(a.y_low, b.y_low);
  return std::max(x, 0.0) * std::max(y, 0.0);
}

void sort_by_middle(std::span<RTreeEntry> entries, bool by_y) {
  const auto middle = [by_y](const RTreeEntry& entry) {
    const Rectangle& box = entry.box;
    return by_y ? std::uint64_t{box.y_low} + box.y_high : std::uint64_t{box.x_low} + box.x_high;
  };
  std::sort(entries.begin(), entries.end(),
            [&](const RTreeEntry& a, const RTreeEntry& b) { return middle(a) < middle(b); });
}

struct Split {
  double margins = 0.0;  // of all splits along the axis
  std::size_t first = 0;
};

Split best_split(std::span<const RTreeEntry> entries) {
  const std::size_t n = entries.size();
  std::array<Rectangle, most_entries> behind;
  behind[n - 1] = entries[n - 1].box;
  for (std::size_t i = n - 1; i > 0; --i) behind[i - 1] = joined(behind[i], entries[i - 1].box);
  Split best;
  double least_overlap = std::numeric_limits<double>::infinity();
  double least_area = least_overlap;
  const std::size_t least = std::max<std::size_t>(n * 2 / 5, 1);
  Rectangle before = entries[0].box;
  for (std::size_t first = 1; first <= n - least; ++first) {
    if (first > 1) before = joined(before, entries[first - 1].box);
    if (first < least) continue;
    const Rectangle& after = behind[first];
    best.margins += width(before) + height(before) + width(after) + height(after);
    const double common = overlap(before, after);
    const double area = width(before) * height(before) + width(after) * height(after);
    if (common < least_overlap || (common == least_overlap && area < least_area)) {
      least_overlap = common;
      least_area = area;
      best.first = first;
    }
  }
  return best;
}

}  // namespace

std::size_t split_entries(std::span<RTreeEntry> entries) noexcept {
  sort_by_middle(entries, true);
  const Split by_y = best_split(entries);
  sort_by_middle(entries, false);
  const Split by_x = best_split(entries);
  if (by_x.margins <= by_y.margins) return by_x.first;
  sort_by_middle(entries, true);
  return by_y.first;
}

}  // namespace pmoss::index_detail
