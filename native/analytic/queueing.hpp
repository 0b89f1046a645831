// Throughput and latency of single-server stations (worker cores) under the three load regimes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace pmoss::analytic {

/// Throughput of a closed network in which `population` queries circulate and a query needs
/// demand[c] of server c. burst[c] is (1 + v) / 2 of a server whose service times have the squared
/// coefficient of variation v: 1 where they are exponential, 1/2 where they are constant. A server
/// with utilisation r holds r + burst r^2 / (1 - r) queries (Pollaczek and Khinchine); that these
/// add up to the population is the large-population form of mean value analysis, within
/// M / (N + M) for M balanced stations. `guess` is where the search starts, 0 if unknown.
double closed_throughput(std::span<const double> demand, std::span<const double> burst,
                         double population, double guess);

/// Queries at a station, and behind it, with utilisation below 1.
inline double queue_length(double utilisation, double burst) {
  return utilisation + burst * utilisation * utilisation / (1.0 - utilisation);
}

/// Quantile of a mixture of exponential response times: weight[c] with mean[c].
double mixture_quantile(const std::vector<double>& weight, const std::vector<double>& mean,
                        double quantile);

/// The share of such a mixture that lies at or below `limit`.
double mixture_share_within(const std::vector<double>& weight, const std::vector<double>& mean,
                            double limit);

/// The same where each part is normally distributed.
double normal_mixture_share_within(const std::vector<double>& weight,
                                   const std::vector<double>& mean,
                                   const std::vector<double>& deviation, double limit);

/// The quantile where each part is normally distributed.
double normal_mixture_quantile(const std::vector<double>& weight, const std::vector<double>& mean,
                               const std::vector<double>& deviation, double quantile);

}  // namespace pmoss::analytic
