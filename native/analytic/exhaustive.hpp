// The optimum of a small instance by enumeration: a reference for teaching and tests.
#pragma once

#include <cstdint>
#include <vector>

#include "analytic/model.hpp"

namespace pmoss::analytic {

struct Optimum {
  std::vector<std::int32_t> cores;
  double throughput = 0;
  std::uint64_t evaluated = 0;
};

/// The best schedule of `model`'s instance with every slice's data on its core's node. Throws
/// std::invalid_argument if there are more than `limit` schedules.
Optimum best_by_enumeration(Model& model, std::uint64_t limit);

}  // namespace pmoss::analytic
