// How much work a query is, in one number: only to compare the queries of one slice.
#pragma once

namespace pmoss::analytic {

/// In instructions; a branch miss and a touched line take as long as some dozens of them.
inline double query_work(double instructions, double branch_misses, double dependent,
                         double streaming) {
  return instructions + 40.0 * branch_misses + 30.0 * (dependent + 0.3 * streaming);
}

}  // namespace pmoss::analytic
