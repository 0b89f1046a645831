// Exact Zipf ranks with constant set-up, and the probabilities that go with them.
#pragma once

#include <cstdint>

#include "workload/random.hpp"

namespace pmoss {

/// The generalised harmonic number: the sum of i^-theta for i = 1 .. items, for 0 <= theta <= 10.
/// Relative error about 1e-14, in constant time (Euler-Maclaurin).
double zeta(std::uint64_t items, double theta);

/// Probability of `rank` (0 = most frequent) among `items`. Each call computes zeta().
double zipf_probability(std::uint64_t rank, std::uint64_t items, double theta);

/// Draws ranks 0 .. items - 1 with probability proportional to (rank + 1)^-theta by rejection from
/// an inverted integral (Hörmann and Derflinger, 1996): exact for every theta, no tables.
class ZipfSampler {
 public:
  /// Beyond this many items a 53-bit uniform number no longer resolves single ranks of the tail.
  static constexpr std::uint64_t max_items = std::uint64_t{1} << 40;

  /// `items` in 1 .. max_items, `theta` in (0, 10]; anything else is std::invalid_argument.
  ZipfSampler(std::uint64_t items, double theta);

  std::uint64_t operator()(Random& random) const noexcept;
  double probability(std::uint64_t rank) const noexcept;

  std::uint64_t items() const noexcept { return items_; }
  double theta() const noexcept { return theta_; }

 private:
  double density(double x) const noexcept;           // x^-theta
  double integral(double x) const noexcept;          // of the density, from 1 to x
  double integral_inverse(double u) const noexcept;  // the x whose integral is u

  std::uint64_t items_;
  double theta_;
  double zeta_;
  double low_;     // the band of the inverted integral from which points are drawn
  double high_;    //
  double accept_;  // a point at most this far below its integer is always accepted
};

}  // namespace pmoss
