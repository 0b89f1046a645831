#include "analytic/decay.hpp"

#include <array>
#include <cstdint>
#include <cstring>

namespace pmoss::analytic {
namespace {

constexpr double lowest_exponent = -690.0;  // what is left then is below 1e-299
constexpr double least = 1e-300;            // against 0 / 0

namespace baseline {
#define PMOSS_TARGET
#define PMOSS_WIDTH 2
#include "analytic/decay_kernels.inc"
#undef PMOSS_WIDTH
#undef PMOSS_TARGET
constexpr DecayKernels kernels{"baseline", absent,      decay,     row_decay, row_left,
                               logarithms, queue,       greatest,  mix_rows,  sum_row,
                               age,        gone_within, sum_lines, sum_pages};
}  // namespace baseline

#if defined(__x86_64__)
namespace avx2 {
#define PMOSS_TARGET [[gnu::target("avx2")]]
#define PMOSS_WIDTH 4
#include "analytic/decay_kernels.inc"
#undef PMOSS_WIDTH
#undef PMOSS_TARGET
constexpr DecayKernels kernels{"avx2",     absent,      decay,     row_decay, row_left,
                               logarithms, queue,       greatest,  mix_rows,  sum_row,
                               age,        gone_within, sum_lines, sum_pages};
}  // namespace avx2

namespace avx512 {
#if defined(__clang__)
#define PMOSS_TARGET [[gnu::target("avx512f,avx512dq")]]
#else  // of its own accord this compiler prefers half the width
#define PMOSS_TARGET [[gnu::target("avx512f,avx512dq,prefer-vector-width=512")]]
#endif
#define PMOSS_WIDTH 8
#include "analytic/decay_kernels.inc"
#undef PMOSS_WIDTH
#undef PMOSS_TARGET
constexpr DecayKernels kernels{"avx512",   absent,      decay,     row_decay, row_left,
                               logarithms, queue,       greatest,  mix_rows,  sum_row,
                               age,        gone_within, sum_lines, sum_pages};
}  // namespace avx512
#endif

}  // namespace

std::span<const DecayKernels> all_decay_kernels() {
#if defined(__x86_64__)
  static constexpr std::array<DecayKernels, 3> all{baseline::kernels, avx2::kernels,
                                                   avx512::kernels};
  __builtin_cpu_init();
  std::size_t usable = 1;
  if (__builtin_cpu_supports("avx2")) {
    usable = 2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) usable = 3;
  }
  return std::span(all).first(usable);
#else
  static constexpr std::array<DecayKernels, 1> all{baseline::kernels};
  return all;
#endif
}

const DecayKernels& decay_kernels() {
  static const DecayKernels& fastest = all_decay_kernels().back();
  return fastest;
}

}  // namespace pmoss::analytic
