// Throughput and latency of single-server stations (worker cores) under the three load regimes.
#pragma once

#include <vector>

namespace pmoss::analytic {

/// Throughput of a closed network in which `population` queries circulate and a query needs
/// demand[c] of server c. The population constraint sum_c x d_c / (1 - x d_c) = population is the
/// large-population form of mean value analysis; it is exact for one station as population grows,
/// and within M / (N + M) for M balanced stations.
double closed_throughput(const std::vector<double>& demand, double population);

/// Quantile of a mixture of exponential response times: weight[c] with mean[c].
double mixture_quantile(const std::vector<double>& weight, const std::vector<double>& mean,
                        double quantile);

}  // namespace pmoss::analytic
