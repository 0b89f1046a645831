// How a worker or a router waits for work.
#pragma once

#include "index/backoff.hpp"

namespace pmoss::runtime {

/// A role that shares its core with another one gives it away almost at once: what it waits for may
/// be that very thread.
inline Backoff backoff_of_role(bool shares_core) noexcept {
  return Backoff(shares_core ? 8 : 2048);
}

}  // namespace pmoss::runtime
