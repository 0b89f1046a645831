// What a model measured under one schedule.
#pragma once

#include <vector>

#include "counters/rates.hpp"

namespace pmoss {

struct Snapshot {
  double throughput = 0;  // million queries per second
  std::vector<SliceRates> slices;
  std::vector<double> read_gb_per_s;   // per node
  std::vector<double> write_gb_per_s;  // per node
  std::vector<double> link_gb_per_s;   // [from socket][to socket]
  double latency_p50_us = 0;
  double latency_p99_us = 0;
};

}  // namespace pmoss
