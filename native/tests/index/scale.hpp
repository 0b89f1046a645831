// Sizes of the tests: smaller where a sanitizer or the guest's emulator makes every access many
// times slower.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace pmoss::testing {

/// Whether this is the case: the guest's first program sets the variable.
inline bool slow() {
#if defined(PMOSS_SANITIZED)
  return true;
#else
  static const bool emulated = std::getenv("PMOSS_GUEST_NODES") != nullptr;
  return emulated;
#endif
}

inline std::size_t scaled(std::size_t n) { return slow() ? n / 10 : n; }

}  // namespace pmoss::testing
