#include "scan/kernels.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

#if defined(__x86_64__) || defined(__i386__)
#define PMOSS_SCAN_X86 1
#include <immintrin.h>
#else
#define PMOSS_SCAN_X86 0
#endif

namespace pmoss::scan {
namespace {

constexpr std::size_t value_bytes = sizeof(std::int32_t);

/// low <= v <= high is one comparison of unsigned numbers: v - low <= high - low.
std::uint32_t width_of(Range range) {
  return static_cast<std::uint32_t>(range.high) - static_cast<std::uint32_t>(range.low);
}

std::size_t scan_scalar(const std::byte* values, std::size_t rows, Range range, std::uint32_t first,
                        std::uint32_t* positions) noexcept {
  const auto low = static_cast<std::uint32_t>(range.low);
  const std::uint32_t width = width_of(range);
  std::size_t matches = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    std::uint32_t value;
    std::memcpy(&value, values + i * value_bytes, value_bytes);
    // Always written, kept only where the value matches: no branch to mispredict.
    positions[matches] = first + static_cast<std::uint32_t>(i);
    matches += value - low <= width ? 1 : 0;
  }
  return matches;
}

#if PMOSS_SCAN_X86

/// For each mask of eight lanes, the lanes that are set, first to last.
constexpr auto compressions = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    unsigned n = 0;
    for (std::uint8_t lane = 0; lane < 8; ++lane) {
      if ((mask >> lane & 1U) != 0) table[mask][n++] = lane;
    }
  }
  return table;
}();

__attribute__((target("avx2,popcnt"))) std::size_t scan_avx2(const std::byte* values,
                                                             std::size_t rows, Range range,
                                                             std::uint32_t first,
                                                             std::uint32_t* positions) noexcept {
  constexpr std::size_t lanes = 8, stride = 4 * lanes;
  const __m256i low = _mm256_set1_epi32(range.low);
  const __m256i width = _mm256_set1_epi32(static_cast<int>(width_of(range)));
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  std::size_t matches = 0, i = 0;
  for (; i + stride <= rows; i += stride) {
    __m256i inside[4];
    for (unsigned k = 0; k < 4; ++k) {
      const auto* const at =
          reinterpret_cast<const __m256i*>(values + (i + k * lanes) * value_bytes);
      const __m256i above = _mm256_sub_epi32(_mm256_loadu_si256(at), low);
      inside[k] = _mm256_cmpeq_epi32(_mm256_max_epu32(above, width), width);
    }
    const __m256i any = _mm256_or_si256(_mm256_or_si256(inside[0], inside[1]),
                                        _mm256_or_si256(inside[2], inside[3]));
    if (_mm256_testz_si256(any, any) != 0) continue;
    for (unsigned k = 0; k < 4; ++k) {
      const auto mask = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(inside[k])));
      const auto* const order = reinterpret_cast<const __m128i*>(compressions[mask].data());
      const __m256i position = _mm256_add_epi32(
          lane, _mm256_set1_epi32(static_cast<int>(first + static_cast<std::uint32_t>(i) +
                                                   k * static_cast<std::uint32_t>(lanes))));
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(positions + matches),
          _mm256_permutevar8x32_epi32(position, _mm256_cvtepu8_epi32(_mm_loadl_epi64(order))));
      matches += static_cast<unsigned>(std::popcount(mask));
    }
  }
  return matches + scan_scalar(values + i * value_bytes, rows - i, range,
                               first + static_cast<std::uint32_t>(i), positions + matches);
}

__attribute__((target("avx512f,popcnt"))) std::size_t scan_avx512(
    const std::byte* values, std::size_t rows, Range range, std::uint32_t first,
    std::uint32_t* positions) noexcept {
  constexpr std::size_t lanes = 16, stride = 4 * lanes;
  const __m512i low = _mm512_set1_epi32(range.low);
  const __m512i width = _mm512_set1_epi32(static_cast<int>(width_of(range)));
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  std::size_t matches = 0, i = 0;
  for (; i + stride <= rows; i += stride) {
    std::uint32_t inside[4];
    for (unsigned k = 0; k < 4; ++k) {
      const __m512i value = _mm512_loadu_si512(values + (i + k * lanes) * value_bytes);
      inside[k] = _cvtmask16_u32(_mm512_cmple_epu32_mask(_mm512_sub_epi32(value, low), width));
    }
    if ((inside[0] | inside[1] | inside[2] | inside[3]) == 0) continue;
    for (unsigned k = 0; k < 4; ++k) {
      const __m512i position = _mm512_add_epi32(
          lane, _mm512_set1_epi32(static_cast<int>(first + static_cast<std::uint32_t>(i) +
                                                   k * static_cast<std::uint32_t>(lanes))));
      // Compressed in a register: storing compressed is slow on some processors.
      _mm512_storeu_si512(positions + matches,
                          _mm512_maskz_compress_epi32(_cvtu32_mask16(inside[k]), position));
      matches += static_cast<unsigned>(std::popcount(inside[k]));
    }
  }
  return matches + scan_scalar(values + i * value_bytes, rows - i, range,
                               first + static_cast<std::uint32_t>(i), positions + matches);
}

#endif

}  // namespace

Kernel kernel_for(Isa isa) {
  if (!isa_supported(isa)) {
    throw std::invalid_argument("isa is " + std::to_string(static_cast<int>(isa)) +
                                "; this processor or build supports up to " +
                                std::to_string(static_cast<int>(best_isa())));
  }
#if PMOSS_SCAN_X86
  if (isa == Isa::avx512) return scan_avx512;
  if (isa == Isa::avx2) return scan_avx2;
#endif
  return scan_scalar;
}

}  // namespace pmoss::scan
