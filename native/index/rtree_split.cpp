#include "index/rtree_split.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "index/search.hpp"

namespace pmoss::index_detail {
namespace {

constexpr std::size_t most_entries = 65;

// The compiler's own vectors: what is inlined is compiled for the caller's instruction set.
using Corners [[gnu::vector_size(16)]] = std::uint32_t;
using Numbers [[gnu::vector_size(16)]] = std::int32_t;
using Doubles [[gnu::vector_size(32)]] = double;
using Lanes [[gnu::vector_size(32)]] = std::int32_t;
constexpr std::size_t lanes = 8;
constexpr std::size_t together = 4 * lanes;

// --- the order ---

std::uint64_t twice_middle(const Rectangle& box, bool by_y) {
  return by_y ? std::uint64_t{box.y_low} + box.y_high : std::uint64_t{box.x_low} + box.x_high;
}

/// Apart, so that it is compiled once.
[[gnu::noinline]] void sort_equal_middles(std::span<const RTreeEntry> entries, bool by_y,
                                          std::span<RTreeEntry> sorted) {
  std::copy(entries.begin(), entries.end(), sorted.begin());
  std::sort(sorted.begin(), sorted.end(), [by_y](const RTreeEntry& a, const RTreeEntry& b) {
    return twice_middle(a.box, by_y) < twice_middle(b.box, by_y);
  });
}

/// Writes the entries in the order of their middles to `sorted`. How many are below an entry is
/// its place: counting that takes vectors and no branches. Where two middles are as good as equal,
/// what std::sort makes of the order that it is given decides; then the result is false.
[[gnu::always_inline]] inline bool sort_by_middle(std::span<const RTreeEntry> entries, bool by_y,
                                                  std::span<RTreeEntry> sorted) {
  const std::size_t n = entries.size();
  // Halves, with the sign turned: what vectors can compare.
  std::array<std::int32_t, (most_entries / together + 1) * together> middles;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t half = twice_middle(entries[i].box, by_y) >> 1;
    middles[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(half) ^ 0x80000000U);
  }
  for (std::size_t i = n; i % together != 0; ++i) middles[i] = 0;
  std::size_t sum = 0;
  for (std::size_t start = 0; start < n; start += together) {
    std::array<Lanes, together / lanes> block;
    std::memcpy(&block, &middles[start], sizeof block);
    std::array<Lanes, together / lanes> below = {};
    for (std::size_t j = 0; j < n; ++j) {
      // True is -1 in each lane.
      for (std::size_t b = 0; b < block.size(); ++b) below[b] -= middles[j] < block[b];
    }
    std::array<std::int32_t, together> places;
    std::memcpy(&places, &below, sizeof places);
    for (std::size_t i = start; i < std::min(start + together, n); ++i) {
      const auto place = static_cast<std::size_t>(places[i - start]);
      sorted[place] = entries[i];
      sum += place;
    }
  }
  if (sum == n * (n - 1) / 2) return true;  // all places are different
  sort_equal_middles(entries, by_y, sorted);
  return false;
}

// --- the split ---

/// A box with its high sides turned, so that a box around both has the smaller of all numbers.
[[gnu::always_inline]] inline Corners turned(Corners box) { return box ^ Corners{0, 0, ~0U, ~0U}; }

[[gnu::always_inline]] inline Corners around(Corners a, Corners b) {
  Corners both;
  for (int i = 0; i < 4; ++i) both[i] = a[i] < b[i] ? a[i] : b[i];
  return both;
}

[[gnu::always_inline]] inline Corners corners_of(const RTreeEntry& entry) {
  return turned(std::bit_cast<Corners>(entry.box));
}

/// Apart, as it is rarely asked for.
[[gnu::noinline]] Rectangle box_around(std::span<const RTreeEntry> entries) {
  Corners box = corners_of(entries[0]);
  for (const RTreeEntry& entry : entries.subspan(1)) box = around(box, corners_of(entry));
  return std::bit_cast<Rectangle>(turned(box));
}

struct Size {
  double width;
  double height;
};

/// Exact: these are whole numbers of few bits.
[[gnu::always_inline]] inline Size size_of(Corners box) {
  const auto shifted = std::bit_cast<Numbers>(box ^ 0x80000000U);
  const Doubles numbers = __builtin_convertvector(shifted, Doubles);
  // The high side was taken from 2^32 - 1, and from both numbers 2^31.
  return {-1.0 - (numbers[0] + numbers[2]), -1.0 - (numbers[1] + numbers[3])};
}

struct Split {
  double margins = 0.0;  // of all splits along the axis
  Shares shares = {};
};

[[gnu::always_inline]] inline Split best_split(std::span<const RTreeEntry> entries) {
  const std::size_t n = entries.size();
  const std::size_t least = std::max<std::size_t>(n * 2 / 5, 1);
  std::array<Corners, most_entries> behind;
  behind[n - 1] = corners_of(entries[n - 1]);
  for (std::size_t i = n - 1; i > least; --i) {
    behind[i - 1] = around(behind[i], corners_of(entries[i - 1]));
  }
  Split best;
  double least_overlap = std::numeric_limits<double>::infinity();
  double least_area = least_overlap;
  Corners before = corners_of(entries[0]);
  for (std::size_t first = 1; first <= n - least; ++first) {
    if (first > 1) before = around(before, corners_of(entries[first - 1]));
    if (first < least) continue;
    const Corners after = behind[first];
    const Size left = size_of(before);
    const Size right = size_of(after);
    const Size common = size_of(before > after ? before : after);
    best.margins += left.width + left.height + right.width + right.height;
    const double overlap = std::max(common.width, 0.0) * std::max(common.height, 0.0);
    const double area = left.width * left.height + right.width * right.height;
    if (overlap < least_overlap || (overlap == least_overlap && area < least_area)) {
      least_overlap = overlap;
      least_area = area;
      best.shares = {first, std::bit_cast<Rectangle>(turned(before)),
                     std::bit_cast<Rectangle>(turned(after))};
    }
  }
  return best;
}

[[gnu::always_inline]] inline Shares split(std::span<RTreeEntry> entries) {
  std::array<RTreeEntry, most_entries> room_y, room_x;
  const std::span<RTreeEntry> by_y(room_y.data(), entries.size());
  const std::span<RTreeEntry> by_x(room_x.data(), entries.size());
  const bool one_order = sort_by_middle(entries, true, by_y);
  const Split of_y = best_split(by_y);
  sort_by_middle(by_y, false, by_x);
  const Split of_x = best_split(by_x);
  if (of_x.margins <= of_y.margins) {
    std::copy(by_x.begin(), by_x.end(), entries.begin());
    return of_x.shares;
  }
  if (one_order) {
    std::copy(by_y.begin(), by_y.end(), entries.begin());
    return of_y.shares;
  }
  // Equal middles may now lie in another order, and so on the other side of the split.
  sort_equal_middles(by_x, true, entries);
  const std::size_t first = of_y.shares.first;
  return {first, box_around(entries.first(first)), box_around(entries.subspan(first))};
}

#if defined(__x86_64__) || defined(__i386__)
[[gnu::target("avx2")]] Shares avx2_split(std::span<RTreeEntry> entries) noexcept {
  return split(entries);
}
#endif

}  // namespace

Shares split_entries(std::span<RTreeEntry> entries) noexcept {
#if defined(__x86_64__) || defined(__i386__)
  // Wider vectors would be half empty.
  if (search_isa() != Isa::scalar) return avx2_split(entries);
#endif
  return split(entries);
}

}  // namespace pmoss::index_detail
