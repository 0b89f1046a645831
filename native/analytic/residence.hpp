// How long a line stays in a cache of which others take their part: Che's approximation.
#pragma once

#include <cstddef>
#include <vector>

#include "analytic/decay.hpp"

namespace pmoss::analytic {

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
  const double* decay() const { return decay_.data(); }

 private:
  std::size_t classes_ = 0;
  std::vector<double> lines_, rates_, decay_;
};

}  // namespace pmoss::analytic
