// Sizes of the tests: smaller where a sanitizer or an emulator (PMOSS_EMULATED) makes every access
// many times slower.
#pragma once

#include <cstddef>

#if defined(PMOSS_SANITIZED) || defined(PMOSS_EMULATED)
#define PMOSS_SLOW 1
#endif
#ifndef PMOSS_SLOW
#define PMOSS_SLOW 0
#endif

namespace pmoss::testing {

constexpr std::size_t scaled(std::size_t n) { return PMOSS_SLOW ? n / 10 : n; }

}  // namespace pmoss::testing
