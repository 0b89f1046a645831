#include "analytic/residence.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "workload/portable_math.hpp"

namespace pmoss::analytic {
namespace {

constexpr int most_steps = 40;
constexpr double near_enough = 1e-4;  // squared by the last step

}  // namespace

void Residents::start(std::size_t classes) {
  classes_ = padded(classes);
  if (classes_ > lines_.size()) {
    for (auto* values : {&lines_, &rates_, &decay_, &crowded_decay_}) values->resize(classes_);
  }
  for (std::size_t i = classes; i < classes_; ++i) lines_[i] = rates_[i] = 0.0;
}

double Residents::solve(double capacity, double passing) {
  const DecayKernels& kernels = decay_kernels();
  // At time 0 all are absent.
  const Absent all = kernels.absent(lines_.data(), rates_.data(), classes_, 0.0);
  const double total = all.lines;
  const double touches = all.slope;
  if (total <= capacity && passing == 0.0) {
    std::fill_n(decay_.begin(), classes_, 0.0);
    return std::numeric_limits<double>::infinity();
  }
  // The first guess lies left of the root. The number of lines present is concave in time, and so
  // is its logarithm in the logarithm of time. So Newton's method reaches the root without
  // overshooting. It begins in logarithms, where the number is nearly a power of time.
  double time = capacity / (touches + passing);
  for (int step = 0; step < most_steps; ++step) {
    const Absent absent = kernels.absent(lines_.data(), rates_.data(), classes_, time);
    // Next to nothing is present for a moment: what is left of the difference is rounding.
    const double present = std::max(total - absent.lines, 1e-8 * capacity) + passing * time;
    const double slope = absent.slope + passing;
    const double change = (capacity - present) / slope;
    if (change > 0.05 * time) {
      const double elasticity = time * slope / present;
      time *= portable::exp(std::min(3.0, portable::log(capacity / present) / elasticity));
      continue;
    }
    // Rounding may have led beyond the root, where the curve is flat.
    time += std::max(change, -0.5 * time);
    if (std::abs(change) <= near_enough * time) break;
  }
  kernels.decay(rates_.data(), classes_, time, decay_.data());
  return time;
}

SetSpread SetSpread::of(int ways) {
  const double w = ways;
  const double spread = std::sqrt(w + 1.0);
  return {(w + 1.0 - spread) / w, (w + 1.0 + spread) / w, 0.5 + 0.5 / spread};
}

double Residents::solve_sets(double capacity, const SetSpread& sets, double passing) {
  const double crowded = solve(capacity * sets.crowded, passing);
  crowded_decay_.swap(decay_);
  const double sparse = solve(capacity * sets.sparse, passing);
  for (std::size_t k = 0; k < classes_; ++k) {
    decay_[k] += sets.crowded_share * (crowded_decay_[k] - decay_[k]);
  }
  if (std::isinf(sparse)) return crowded;
  return sparse + sets.crowded_share * (crowded - sparse);
}

}  // namespace pmoss::analytic
