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

std::uint64_t twice_middle(const Rectangle& box, bool by_y) {
  return by_y ? std::uint64_t{box.y_low} + box.y_high : std::uint64_t{box.x_low} + box.x_high;
}

/// Writes the entries in the order of their middles to `sorted`. How many are below an entry is
/// its place: counting that takes vectors and no branches. Where two middles are as good as equal,
/// what std::sort makes of the order that it is given decides.
void sort_by_middle(std::span<const RTreeEntry> entries, bool by_y, std::span<RTreeEntry> sorted) {
  const std::size_t n = entries.size();
  // Halves, with the sign turned: what the processor's baseline can compare four at a time.
  std::array<std::int32_t, most_entries> middles;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t half = twice_middle(entries[i].box, by_y) >> 1;
    middles[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(half) ^ 0x80000000U);
  }
  std::size_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::int32_t below = 0;
    for (std::size_t j = 0; j < n; ++j) below += middles[j] < middles[i] ? 1 : 0;
    sorted[static_cast<std::size_t>(below)] = entries[i];
    sum += static_cast<std::size_t>(below);
  }
  if (sum == n * (n - 1) / 2) return;  // all places are different
  std::copy(entries.begin(), entries.end(), sorted.begin());
  std::sort(sorted.begin(), sorted.end(), [by_y](const RTreeEntry& a, const RTreeEntry& b) {
    return twice_middle(a.box, by_y) < twice_middle(b.box, by_y);
  });
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
  std::array<RTreeEntry, most_entries> room_y, room_x;
  const std::span<RTreeEntry> by_y(room_y.data(), entries.size());
  const std::span<RTreeEntry> by_x(room_x.data(), entries.size());
  sort_by_middle(entries, true, by_y);
  const Split of_y = best_split(by_y);
  sort_by_middle(by_y, false, by_x);
  const Split of_x = best_split(by_x);
  if (of_x.margins <= of_y.margins) {
    std::copy(by_x.begin(), by_x.end(), entries.begin());
    return of_x.first;
  }
  sort_by_middle(by_x, true, entries);
  return of_y.first;
}

}  // namespace pmoss::index_detail
