// Sizes of the tests: smaller where a sanitizer or an emulator (PMOSS_EMULATED) makes every access
// many times as dear.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define PMOSS_SLOW 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define PMOSS_SLOW 1
#endif
#endif
#if defined(PMOSS_EMULATED)
#define PMOSS_SLOW 1
#endif
#ifndef PMOSS_SLOW
#define PMOSS_SLOW 0
#endif

namespace pmoss::testing {

constexpr std::size_t scaled(std::size_t n) { return PMOSS_SLOW ? n / 10 : n; }

}  // namespace pmoss::testing
