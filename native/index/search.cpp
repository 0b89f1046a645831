// The instruction sets of the search, and the choice between them.
#include "index/search.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "workload/keyspace.hpp"

#if (defined(__x86_64__) || defined(__i386__)) && !PMOSS_TSAN
#define PMOSS_X86_SIMD 1
#include <immintrin.h>
#else
#define PMOSS_X86_SIMD 0  // ThreadSanitizer would see reads before they are valid
#endif

namespace pmoss {
namespace index_detail {
namespace {

/// The lower bound behind line `group`, all of whose keys are below `key`. Binary, so that keys too
/// close together for the samples cost no more than in an ordinary node. The last slot of a node
/// is never in use, so the result is a valid slot.
template <class Tracer>
[[gnu::noinline]] unsigned search_behind(const Node& node, std::uint64_t key, unsigned group,
                                         Tracer tracer) noexcept {
  unsigned first = (group + 1) * group_keys;
  unsigned last = slots - 1;
  while (first < last) {
    const unsigned middle = (first + last) / 2;
    tracer.reads(node.keys + middle, sizeof key);
    if (versioned_load(node.keys[middle]) < key) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return std::min(first, slots - 1);
}

namespace scalar {

#define PMOSS_TARGET

inline unsigned sample_group(const Node& node, std::uint64_t key) noexcept {
  const std::uint32_t sample = node.sample_of(key);
  unsigned below = 0;
  for (const std::uint32_t other : versioned_block<groups>(node.samples)) {
    below += other < sample ? 1 : 0;
  }
  return below;
}

inline unsigned line_below(const std::uint64_t* line, std::uint64_t key) noexcept {
  unsigned below = 0;
  for (const std::uint64_t other : versioned_block<group_keys>(line)) below += other < key ? 1 : 0;
  return below;
}

inline unsigned line_equal(const std::uint64_t* line, std::uint64_t key) noexcept {
  unsigned equal = 0;
  const auto keys = versioned_block<group_keys>(line);
  for (unsigned i = 0; i < group_keys; ++i) equal |= (keys[i] == key ? 1u : 0u) << i;
  return equal;
}

#include "index/search_kernels.inc"
#undef PMOSS_TARGET

}  // namespace scalar

#if PMOSS_X86_SIMD

namespace avx2 {

#define PMOSS_TARGET [[gnu::target("avx2,bmi,bmi2,popcnt")]]

PMOSS_TARGET inline unsigned sample_group(const Node& node, std::uint64_t key) noexcept {
  const __m256i sample = _mm256_set1_epi32(static_cast<int>(node.sample_of(key)));
  const auto* const lines = reinterpret_cast<const __m256i*>(node.samples);
  const __m256i a = _mm256_cmpgt_epi32(sample, _mm256_load_si256(lines));
  const __m256i b = _mm256_cmpgt_epi32(sample, _mm256_load_si256(lines + 1));
  const __m256i c = _mm256_cmpgt_epi32(sample, _mm256_load_si256(lines + 2));
  const __m256i d = _mm256_cmpgt_epi32(sample, _mm256_load_si256(lines + 3));
  // Packing permutes the comparisons, but only their number matters.
  const __m256i all = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
  return static_cast<unsigned>(std::popcount(static_cast<unsigned>(_mm256_movemask_epi8(all))));
}

PMOSS_TARGET inline unsigned line_below(const std::uint64_t* keys, std::uint64_t key) noexcept {
  // There are signed comparisons only; turning the top bit makes them right for unsigned numbers.
  const __m256i top = _mm256_set1_epi64x(static_cast<long long>(std::uint64_t{1} << 63));
  const __m256i wanted = _mm256_xor_si256(_mm256_set1_epi64x(static_cast<long long>(key)), top);
  const auto* const line = reinterpret_cast<const __m256i*>(keys);
  const __m256i a = _mm256_xor_si256(_mm256_load_si256(line), top);
  const __m256i b = _mm256_xor_si256(_mm256_load_si256(line + 1), top);
  const int low = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(wanted, a)));
  const int high = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(wanted, b)));
  return static_cast<unsigned>(std::popcount(static_cast<unsigned>(low | high << 4)));
}

PMOSS_TARGET inline unsigned line_equal(const std::uint64_t* keys, std::uint64_t key) noexcept {
  const __m256i wanted = _mm256_set1_epi64x(static_cast<long long>(key));
  const auto* const line = reinterpret_cast<const __m256i*>(keys);
  const __m256i a = _mm256_cmpeq_epi64(wanted, _mm256_load_si256(line));
  const __m256i b = _mm256_cmpeq_epi64(wanted, _mm256_load_si256(line + 1));
  const int low = _mm256_movemask_pd(_mm256_castsi256_pd(a));
  const int high = _mm256_movemask_pd(_mm256_castsi256_pd(b));
  return static_cast<unsigned>(low | high << 4);
}

#include "index/search_kernels.inc"
#undef PMOSS_TARGET

}  // namespace avx2

namespace avx512 {

#define PMOSS_TARGET [[gnu::target("avx512f,avx512bw,avx512dq,avx2,bmi,bmi2,popcnt")]]

PMOSS_TARGET inline unsigned sample_group(const Node& node, std::uint64_t key) noexcept {
  const __m512i sample = _mm512_set1_epi32(static_cast<int>(node.sample_of(key)));
  const __mmask32 low = _mm512_cmpgt_epi32_mask(sample, _mm512_load_si512(node.samples));
  const __mmask32 high =
      _mm512_cmpgt_epi32_mask(sample, _mm512_load_si512(node.samples + groups / 2));
  return static_cast<unsigned>(std::popcount(_cvtmask32_u32(_mm512_kunpackw(high, low))));
}

PMOSS_TARGET inline unsigned line_below(const std::uint64_t* keys, std::uint64_t key) noexcept {
  const __m512i line = _mm512_load_si512(keys);
  const __m512i wanted = _mm512_set1_epi64(static_cast<long long>(key));
  return static_cast<unsigned>(std::popcount(_cvtmask8_u32(_mm512_cmpgt_epu64_mask(wanted, line))));
}

PMOSS_TARGET inline unsigned line_equal(const std::uint64_t* keys, std::uint64_t key) noexcept {
  const __m512i line = _mm512_load_si512(keys);
  return _cvtmask8_u32(
      _mm512_cmpeq_epu64_mask(_mm512_set1_epi64(static_cast<long long>(key)), line));
}

#include "index/search_kernels.inc"
#undef PMOSS_TARGET

}  // namespace avx512

#endif  // PMOSS_X86_SIMD

constexpr SearchKernels scalar_kernels = {
    {scalar::lower_bound, scalar::lower_bound_to_write, scalar::find_leaf, scalar::lookup},
    Isa::scalar,
    scalar::lookup_batch};
#if PMOSS_X86_SIMD
constexpr SearchKernels avx2_kernels = {
    {avx2::lower_bound, avx2::lower_bound_to_write, avx2::find_leaf, avx2::lookup},
    Isa::avx2,
    avx2::lookup_batch};
constexpr SearchKernels avx512_kernels = {
    {avx512::lower_bound, avx512::lower_bound_to_write, avx512::find_leaf, avx512::lookup},
    Isa::avx512,
    avx512::lookup_batch};
#endif

/// Null if the processor or the build has no such kernels.
const SearchKernels* find_kernels(Isa isa) noexcept {
  switch (isa) {
    case Isa::scalar:
      return &scalar_kernels;
#if PMOSS_X86_SIMD
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                     __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt")
                 ? &avx2_kernels
                 : nullptr;
    case Isa::avx512:
      return find_kernels(Isa::avx2) != nullptr && __builtin_cpu_supports("avx512f") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
                 ? &avx512_kernels
                 : nullptr;
#endif
    default:
      return nullptr;
  }
}

}  // namespace

// Wider ones touch the same lines.
const Searches<Traced> traced_searches = {scalar::lower_bound, scalar::lower_bound_to_write,
                                          scalar::find_leaf, scalar::lookup};

// Usable, if slow, before the initialisation below has run.
constinit std::atomic<const SearchKernels*> chosen_kernels{&scalar_kernels};

namespace {
[[maybe_unused]] const bool best_is_chosen = [] {
  set_search_isa(best_isa());
  return true;
}();
}  // namespace

}  // namespace index_detail

bool isa_supported(Isa isa) noexcept { return index_detail::find_kernels(isa) != nullptr; }

Isa best_isa() noexcept {
  for (const Isa isa : {Isa::avx512, Isa::avx2}) {
    if (isa_supported(isa)) return isa;
  }
  return Isa::scalar;
}

void set_search_isa(Isa isa) {
  const auto* const kernels_of_isa = index_detail::find_kernels(isa);
  if (kernels_of_isa == nullptr) {
    throw std::invalid_argument("isa is " + std::to_string(static_cast<int>(isa)) +
                                "; this processor or build supports up to " +
                                std::to_string(static_cast<int>(best_isa())));
  }
  index_detail::chosen_kernels.store(kernels_of_isa, std::memory_order_relaxed);
}

Isa search_isa() noexcept { return index_detail::kernels().isa; }

}  // namespace pmoss
