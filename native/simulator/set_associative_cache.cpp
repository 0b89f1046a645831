#include "simulator/set_associative_cache.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace pmoss::simulator {

CacheShape CacheShape::of(double entries, int ways) {
  ways = std::min(ways, max_ways);
  if (entries < ways) return {1, std::max(1, static_cast<int>(std::lround(entries)))};
  return {static_cast<std::uint32_t>(std::lround(entries / ways)), ways};
}

void check(const CacheShape& shape) {
  if (shape.ways < 1 || shape.ways > CacheShape::max_ways) {
    throw std::invalid_argument("ways = " + std::to_string(shape.ways) + ": must be 1 to 16");
  }
  if (shape.sets == 0) throw std::invalid_argument("sets = 0: there must be at least 1");
}

SetAssociativeCache::SetAssociativeCache(std::size_t caches, CacheShape shape) : shape_(shape) {
  check(shape);
  if (caches == 0) throw std::invalid_argument("caches = 0: there must be at least 1");
  last_nibble_ = 4 * static_cast<unsigned>(shape.ways - 1);
  used_nibbles_ = ~std::uint64_t{0} >> (60 - last_nibble_);
  tags_.resize(caches * shape.sets);
  order_.resize(caches * shape.sets);
  clear();
}

void SetAssociativeCache::clear() noexcept {
  for (TagSet& set : tags_) set.tags.fill(none);
  std::fill(order_.begin(), order_.end(), 0xfedcba9876543210);
}

}  // namespace pmoss::simulator
