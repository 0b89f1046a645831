#include "index/box_kernels.hpp"

#if (defined(__x86_64__) || defined(__i386__)) && !PMOSS_TSAN
#define PMOSS_X86_SIMD 1
#include <immintrin.h>
#else
#define PMOSS_X86_SIMD 0  // the accesses of vector instructions cannot be made atomic for TSan
#endif

namespace pmoss::index_detail {
namespace {

std::uint64_t scalar_boxes(const Boxes& boxes, unsigned n, const Rectangle& range) noexcept {
  std::uint64_t hits = 0;
  for (unsigned i = 0; i < n; ++i) {
    const bool hit = relaxed_load(boxes.x_low[i]) <= range.x_high &&
                     relaxed_load(boxes.x_high[i]) >= range.x_low &&
                     relaxed_load(boxes.y_low[i]) <= range.y_high &&
                     relaxed_load(boxes.y_high[i]) >= range.y_low;
    hits |= std::uint64_t{hit ? 1U : 0U} << i;
  }
  return hits;
}

#if PMOSS_X86_SIMD

#define PMOSS_TARGET [[gnu::target("avx2")]]

// There are no unsigned comparisons, but maxima and minima.
PMOSS_TARGET inline __m256i at_most(const std::uint32_t* numbers, __m256i bound) noexcept {
  const __m256i n = _mm256_load_si256(reinterpret_cast<const __m256i*>(numbers));
  return _mm256_cmpeq_epi32(_mm256_min_epu32(n, bound), n);
}

PMOSS_TARGET inline __m256i at_least(const std::uint32_t* numbers, __m256i bound) noexcept {
  const __m256i n = _mm256_load_si256(reinterpret_cast<const __m256i*>(numbers));
  return _mm256_cmpeq_epi32(_mm256_max_epu32(n, bound), n);
}

PMOSS_TARGET std::uint64_t avx2_boxes(const Boxes& boxes, unsigned n,
                                      const Rectangle& range) noexcept {
  const __m256i x_low = _mm256_set1_epi32(static_cast<int>(range.x_low));
  const __m256i y_low = _mm256_set1_epi32(static_cast<int>(range.y_low));
  const __m256i x_high = _mm256_set1_epi32(static_cast<int>(range.x_high));
  const __m256i y_high = _mm256_set1_epi32(static_cast<int>(range.y_high));
  std::uint64_t hits = 0;
  for (unsigned i = 0; i < n; i += 8) {
    const __m256i x =
        _mm256_and_si256(at_most(boxes.x_low + i, x_high), at_least(boxes.x_high + i, x_low));
    const __m256i y =
        _mm256_and_si256(at_most(boxes.y_low + i, y_high), at_least(boxes.y_high + i, y_low));
    const int mask = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_and_si256(x, y)));
    hits |= static_cast<std::uint64_t>(mask) << i;
  }
  return hits;
}

#undef PMOSS_TARGET
#define PMOSS_TARGET [[gnu::target("avx512f")]]

PMOSS_TARGET std::uint64_t avx512_boxes(const Boxes& boxes, unsigned n,
                                        const Rectangle& range) noexcept {
  const __m512i x_low = _mm512_set1_epi32(static_cast<int>(range.x_low));
  const __m512i y_low = _mm512_set1_epi32(static_cast<int>(range.y_low));
  const __m512i x_high = _mm512_set1_epi32(static_cast<int>(range.x_high));
  const __m512i y_high = _mm512_set1_epi32(static_cast<int>(range.y_high));
  std::uint64_t hits = 0;
  for (unsigned i = 0; i < n; i += 16) {
    __mmask16 mask = _mm512_cmple_epu32_mask(_mm512_load_si512(boxes.x_low + i), x_high);
    mask = _mm512_mask_cmpge_epu32_mask(mask, _mm512_load_si512(boxes.x_high + i), x_low);
    mask = _mm512_mask_cmple_epu32_mask(mask, _mm512_load_si512(boxes.y_low + i), y_high);
    mask = _mm512_mask_cmpge_epu32_mask(mask, _mm512_load_si512(boxes.y_high + i), y_low);
    hits |= static_cast<std::uint64_t>(mask) << i;
  }
  return hits;
}

#undef PMOSS_TARGET

#endif  // PMOSS_X86_SIMD

}  // namespace

BoxKernel box_kernel() noexcept {
#if PMOSS_X86_SIMD
  switch (search_isa()) {
    case Isa::avx2:
      return avx2_boxes;
    case Isa::avx512:
      return avx512_boxes;
    default:
      break;
  }
#endif
  return scalar_boxes;
}

}  // namespace pmoss::index_detail
