// A workload and a recording of it, for tests of profiles and of the model.
#pragma once

#include <cstdint>

#include "recording/trace.hpp"
#include "workload/generator.hpp"

namespace pmoss::analytic {

/// Lookups and inserts in equal parts, on keys that follow Zipf's law.
inline WorkloadSpec lookups_and_inserts(std::uint64_t records) {
  WorkloadSpec w;
  w.lookup = 0.5;
  w.insert = 0.5;
  w.distribution = Distribution::zipf;
  w.records = records;
  return w;
}

/// A recording that leaves no touch out.
inline recording::TraceOptions every_touch() {
  recording::TraceOptions o;
  o.queries = 200'000;
  o.line_sampling = 1;
  o.page_sampling = 1;
  return o;
}

}  // namespace pmoss::analytic
