#include "simulator/lru_levels.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

#if defined(__x86_64__)
#define PMOSS_X86_SIMD 1
#include <immintrin.h>
#else
#define PMOSS_X86_SIMD 0
#endif

namespace pmoss::simulator {
namespace {

constexpr std::size_t block = 512;
// Smaller tables of tags stay in the host's own second level.
constexpr std::uint64_t fetched_ahead_from = 4096;

TagSet* set_of(const LruLevel& level, std::uint32_t line) noexcept {
  return level.tags + set_of_line(line, level.sets);
}

std::size_t filter_scalar(const LruLevel& level, const LruLevel* next, const std::uint32_t* lines,
                          std::size_t n, std::uint32_t* missed) noexcept {
  std::size_t misses = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t line = lines[i];
    if (next != nullptr) __builtin_prefetch(set_of(*next, line), 1);
    TagSet& set = *set_of(level, line);
    const unsigned matching = matches(set, line);
    const auto place =
        static_cast<std::size_t>(std::countr_zero(matching | 1U << (level.ways - 1)));
    for (std::size_t way = place; way > 0; --way) set.tags[way] = set.tags[way - 1];
    set.tags[0] = line;
    missed[misses] = line;
    misses += matching == 0 ? 1 : 0;
  }
  return misses;
}

#if PMOSS_X86_SIMD

#define PMOSS_TARGET [[gnu::target("avx2,bmi")]]

// Places 0 to 3 and 8 to 11 are one vector, 4 to 7 and 12 to 15 the other. So comparisons packed
// together are in order, and one shift moves each half of a vector into the next.
constexpr std::size_t position_of_place(std::size_t place) {
  return place % 4 + place / 8 * 4 + place / 4 % 2 * 8;
}

// For each place, all ones up to it.
struct alignas(64) UpTo {
  std::array<std::array<std::int32_t, 16>, 16> of_place{};

  constexpr UpTo() {
    for (std::size_t place = 0; place < 16; ++place) {
      for (std::size_t other = 0; other <= place; ++other) {
        of_place[place][position_of_place(other)] = -1;
      }
    }
  }
};
constexpr UpTo up_to;

PMOSS_TARGET inline __m256 merged(__m256i old, __m256i shifted, const float* mask) noexcept {
  return _mm256_blendv_ps(_mm256_castsi256_ps(old), _mm256_castsi256_ps(shifted),
                          _mm256_load_ps(mask));
}

PMOSS_TARGET std::size_t filter_avx2(const LruLevel& level, const LruLevel* next,
                                     const std::uint32_t* lines, std::size_t n,
                                     std::uint32_t* missed) noexcept {
  const LruLevel copy = level;
  const LruLevel ahead = next == nullptr ? LruLevel{nullptr, 0, 0} : *next;
  const unsigned last = 1U << 2 * (copy.ways - 1);  // two bits per place
  std::size_t misses = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t line = lines[i];
    if (ahead.tags != nullptr) __builtin_prefetch(set_of(ahead, line), 1);
    auto* const set = reinterpret_cast<float*>(set_of(copy, line)->tags.data());
    const __m256i a = _mm256_castps_si256(_mm256_load_ps(set));
    const __m256i b = _mm256_castps_si256(_mm256_load_ps(set + 8));
    const __m256i key = _mm256_set1_epi32(static_cast<int>(line));
    const __m256i equal =
        _mm256_packs_epi32(_mm256_cmpeq_epi32(a, key), _mm256_cmpeq_epi32(b, key));
    const auto matching = static_cast<unsigned>(_mm256_movemask_epi8(equal));
    const auto place = static_cast<std::size_t>(std::countr_zero(matching | last)) / 2;
    const auto* const mask = reinterpret_cast<const float*>(up_to.of_place[place].data());
    const __m256i shifted_a = _mm256_alignr_epi8(a, _mm256_permute2x128_si256(key, b, 0x20), 12);
    const __m256i shifted_b = _mm256_alignr_epi8(b, a, 12);
    _mm256_store_ps(set, merged(a, shifted_a, mask));
    _mm256_store_ps(set + 8, merged(b, shifted_b, mask + 8));
    missed[misses] = line;
    misses += matching == 0 ? 1 : 0;
  }
  return misses;
}

#undef PMOSS_TARGET
#define PMOSS_TARGET [[gnu::target("avx512f,bmi")]]

PMOSS_TARGET std::size_t filter_avx512(const LruLevel& level, const LruLevel* next,
                                       const std::uint32_t* lines, std::size_t n,
                                       std::uint32_t* missed) noexcept {
  const LruLevel copy = level;
  const LruLevel ahead = next == nullptr ? LruLevel{nullptr, 0, 0} : *next;
  const unsigned last = 1U << (copy.ways - 1);
  std::size_t misses = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t line = lines[i];
    if (ahead.tags != nullptr) __builtin_prefetch(set_of(ahead, line), 1);
    std::uint32_t* const set = set_of(copy, line)->tags.data();
    const __m512i tags = _mm512_load_si512(set);
    const __m512i key = _mm512_set1_epi32(static_cast<int>(line));
    const unsigned matching = _mm512_cmpeq_epi32_mask(tags, key);
    const auto chosen = static_cast<__mmask16>(_blsmsk_u32(matching | last));
    _mm512_store_si512(set, _mm512_mask_alignr_epi32(tags, chosen, tags, key, 15));
    missed[misses] = line;
    misses += matching == 0 ? 1 : 0;
  }
  return misses;
}

#undef PMOSS_TARGET
#endif

std::vector<LruKernel> find_kernels() {
  std::vector<LruKernel> kernels;
#if PMOSS_X86_SIMD
  if (__builtin_cpu_supports("bmi")) {
    if (__builtin_cpu_supports("avx512f")) kernels.push_back({"avx512", filter_avx512});
    if (__builtin_cpu_supports("avx2")) kernels.push_back({"avx2", filter_avx2});
  }
#endif
  kernels.push_back({"scalar", filter_scalar});
  return kernels;
}

}  // namespace

std::span<const LruKernel> lru_kernels() {
  static const std::vector<LruKernel> kernels = find_kernels();
  return kernels;
}

LruLevels::LruLevels(std::span<const CacheShape> shapes, const LruKernel& kernel)
    : kernel_(kernel), misses_(shapes.size()) {
  if (shapes.empty()) throw std::invalid_argument("levels = 0: there must be at least 1");
  TagSet nothing;
  nothing.tags.fill(SetAssociativeCache::none);
  for (const CacheShape& shape : shapes) {
    check(shape);
    tags_.emplace_back(shape.sets, nothing);
    levels_.push_back({tags_.back().data(), shape.sets, static_cast<unsigned>(shape.ways)});
  }
}

void LruLevels::access(std::span<const std::uint32_t> lines) noexcept {
  std::array<std::uint32_t, block> buffers[2];
  for (std::size_t begin = 0; begin < lines.size(); begin += block) {
    const std::uint32_t* left = lines.data() + begin;
    std::size_t n = std::min(block, lines.size() - begin);
    for (std::size_t l = 0; l < levels_.size() && n > 0; ++l) {
      std::uint32_t* const missed = buffers[l % 2].data();
      const bool fetches = l + 1 < levels_.size() && levels_[l + 1].sets >= fetched_ahead_from;
      n = kernel_.filter(levels_[l], fetches ? &levels_[l + 1] : nullptr, left, n, missed);
      misses_[l] += n;
      left = missed;
    }
  }
}

}  // namespace pmoss::simulator
