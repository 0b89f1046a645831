// How long a line stays in a cache of which others take their part: Che's approximation.
#pragma once

#include <cstddef>
#include <vector>

#include "analytic/decay.hpp"

namespace pmoss::analytic {

/// Lines are scattered over the sets of a cache by chance. In a set with more than its part of the
/// lines they stay for a shorter time, and elsewhere for a longer one. A line leaves when as many
/// others as the set has ways were touched after it. The touches of one set are Poisson
/// distributed. So the time follows from a gamma distribution of as many degrees as there are ways,
/// here by its Gauss quadrature of two.
struct SetSpread {
  double crowded, sparse;  ///< capacities, as parts of the cache's
  double crowded_share;    ///< of the lines

  static SetSpread of(int ways);
};

/// The lines that compete for one cache, in classes of equal popularity.
class Residents {
 public:
  /// Makes room for `classes` that the caller fills: `lines` that compete, each touched at `rate`.
  void start(std::size_t classes);
  double* lines() { return lines_.data(); }
  double* rates() { return rates_.data(); }

  /// The one time T for which every line stays after its last touch, so that as many are present as
  /// the cache holds: sum lines (1 - exp(-rate T)) + passing T = capacity; infinite where all
  /// fit. `passing` are lines per unit of time that are brought in and never used again. Afterwards
  /// decay() gives exp(-rate T) of each class.
  double solve(double capacity, double passing);
  /// The same for a cache of sets: decay() is the mean over them, and so is the time, unless some
  /// sets hold all of their lines.
  double solve_sets(double capacity, const SetSpread& sets, double passing);
  const double* decay() const { return decay_.data(); }

 private:
  std::size_t classes_ = 0;
  std::vector<double> lines_, rates_, decay_, crowded_decay_;
};

}  // namespace pmoss::analytic
