#include "index/box_kernels.hpp"

#include <array>
#include <bit>

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

std::uint64_t scalar_points(const std::uint32_t* x, const std::uint32_t* y, unsigned n,
                            const Rectangle& range) noexcept {
  return scalar_boxes({x, y, x, y}, n, range);
}

std::uint64_t* scalar_copy(const std::uint64_t* words, std::uint64_t hits,
                           std::uint64_t* to) noexcept {
  for (; hits != 0; hits &= hits - 1) *to++ = relaxed_load(words[std::countr_zero(hits)]);
  return to;
}

constexpr RangeKernels scalar_range_kernels = {scalar_boxes, scalar_points, scalar_copy};

#if PMOSS_X86_SIMD

// Where the 32-bit halves of four words go, for each choice of words: those chosen come first.
struct alignas(32) Halves {
  std::uint32_t from[8];
};
constexpr std::array<Halves, 16> chosen_first = [] {
  std::array<Halves, 16> table{};
  for (unsigned chosen = 0; chosen < table.size(); ++chosen) {
    unsigned at = 0;
    for (unsigned word = 0; word < 4; ++word) {
      if ((chosen >> word & 1) == 0) continue;
      table[chosen].from[at++] = 2 * word;
      table[chosen].from[at++] = 2 * word + 1;
    }
  }
  return table;
}();

#define PMOSS_TARGET [[gnu::target("avx2,bmi,popcnt")]]

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

PMOSS_TARGET std::uint64_t avx2_points(const std::uint32_t* x, const std::uint32_t* y, unsigned n,
                                       const Rectangle& range) noexcept {
  // A number from low to high is one whose distance from low is at most high - low, unsigned.
  const __m256i x_low = _mm256_set1_epi32(static_cast<int>(range.x_low));
  const __m256i y_low = _mm256_set1_epi32(static_cast<int>(range.y_low));
  const __m256i width = _mm256_set1_epi32(static_cast<int>(range.x_high - range.x_low));
  const __m256i height = _mm256_set1_epi32(static_cast<int>(range.y_high - range.y_low));
  std::uint64_t hits = 0;
  for (unsigned i = 0; i < n; i += 8) {
    const __m256i across =
        _mm256_sub_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(x + i)), x_low);
    const __m256i up =
        _mm256_sub_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(y + i)), y_low);
    const __m256i hit =
        _mm256_and_si256(_mm256_cmpeq_epi32(_mm256_min_epu32(across, width), across),
                         _mm256_cmpeq_epi32(_mm256_min_epu32(up, height), up));
    const auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(hit)));
    hits |= std::uint64_t{mask} << i;
  }
  return hits;
}

PMOSS_TARGET std::uint64_t* avx2_copy(const std::uint64_t* words, std::uint64_t hits,
                                      std::uint64_t* to) noexcept {
  const int first = std::countr_zero(hits) / 4 * 4;
  if (first == 64) return to;
  words += first;
  for (hits >>= first; hits != 0; hits >>= 4, words += 4) {
    const unsigned chosen = hits & 15;
    const __m256i four = _mm256_load_si256(reinterpret_cast<const __m256i*>(words));
    const __m256i from =
        _mm256_load_si256(reinterpret_cast<const __m256i*>(chosen_first[chosen].from));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(four, from));
    to += std::popcount(chosen);
  }
  return to;
}

constexpr RangeKernels avx2_range_kernels = {avx2_boxes, avx2_points, avx2_copy};

#undef PMOSS_TARGET
#define PMOSS_TARGET [[gnu::target("avx512f,bmi,popcnt")]]

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

PMOSS_TARGET std::uint64_t avx512_points(const std::uint32_t* x, const std::uint32_t* y, unsigned n,
                                         const Rectangle& range) noexcept {
  const __m512i x_low = _mm512_set1_epi32(static_cast<int>(range.x_low));
  const __m512i y_low = _mm512_set1_epi32(static_cast<int>(range.y_low));
  const __m512i width = _mm512_set1_epi32(static_cast<int>(range.x_high - range.x_low));
  const __m512i height = _mm512_set1_epi32(static_cast<int>(range.y_high - range.y_low));
  std::uint64_t hits = 0;
  for (unsigned i = 0; i < n; i += 16) {
    const __m512i across = _mm512_sub_epi32(_mm512_load_si512(x + i), x_low);
    const __m512i up = _mm512_sub_epi32(_mm512_load_si512(y + i), y_low);
    const __mmask16 within = _mm512_cmple_epu32_mask(up, height);
    hits |= std::uint64_t{_mm512_mask_cmple_epu32_mask(within, across, width)} << i;
  }
  return hits;
}

PMOSS_TARGET std::uint64_t* avx512_copy(const std::uint64_t* words, std::uint64_t hits,
                                        std::uint64_t* to) noexcept {
  const int first = std::countr_zero(hits) / 8 * 8;
  if (first == 64) return to;
  words += first;
  for (hits >>= first; hits != 0; hits >>= 8, words += 8) {
    const auto chosen = static_cast<__mmask8>(hits);
    // Compressed in a register: some processors are slow at compressing into memory.
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(chosen, _mm512_load_si512(words)));
    to += std::popcount(chosen);
  }
  return to;
}

constexpr RangeKernels avx512_range_kernels = {avx512_boxes, avx512_points, avx512_copy};

#undef PMOSS_TARGET

#endif  // PMOSS_X86_SIMD

}  // namespace

const RangeKernels& range_kernels() noexcept {
#if PMOSS_X86_SIMD
  switch (search_isa()) {
    case Isa::avx2:
      return avx2_range_kernels;
    case Isa::avx512:
      return avx512_range_kernels;
    default:
      break;
  }
#endif
  return scalar_range_kernels;
}

}  // namespace pmoss::index_detail
