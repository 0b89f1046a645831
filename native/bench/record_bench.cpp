// How long recording a trace takes, and its steps alone: making and sorting the keys, loading them.
//
//   record_bench [RECORDS [QUERIES [LINE_SAMPLING [SLICES]]]]
//
// Wall and CPU seconds, for YCSB-A with inserts (half lookups, half inserts, Zipf 0.99).
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "index/btree.hpp"
#include "recording/record.hpp"
#include "recording/sort_keys.hpp"
#include "workload/keyspace.hpp"

namespace {

class Stopwatch {
 public:
  explicit Stopwatch(const char* name) : name_(name) {}
  ~Stopwatch() {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - wall_;
    std::printf("%-28s %6.2f s wall %6.2f s CPU\n", name_, wall.count(),
                static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const char* name_;
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  std::clock_t cpu_ = std::clock();
};

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::uint64_t standard) {
    return argc > i ? std::stoull(argv[i]) : standard;
  };
  pmoss::WorkloadSpec spec;
  spec.lookup = spec.insert = 0.5;
  spec.distribution = pmoss::Distribution::zipf;
  spec.records = argument(1, spec.records);
  pmoss::recording::TraceOptions options;
  options.queries = argument(2, options.queries);
  options.line_sampling = static_cast<std::uint32_t>(argument(3, options.line_sampling));
  const auto slices = static_cast<std::uint32_t>(argument(4, 256));
  {
    std::vector<std::uint64_t> keys(spec.records);
    {
      const Stopwatch watch("draw keys");
      for (std::uint64_t i = 0; i < spec.records; ++i) keys[i] = pmoss::key_of_record(i, spec.seed);
    }
    {
      const Stopwatch watch("sort keys");
      pmoss::recording::sort_keys(keys);
    }
    pmoss::BTree tree({.slices = slices, .huge_pages = true});
    const Stopwatch watch("load tree");
    tree.bulk_load(keys, keys, spec.seed);
  }
  const Stopwatch watch("record, all together");
  const auto trace = pmoss::recording::record_btree(spec, slices, options);
  double touches = 0.0;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    touches += trace->queries[i].dependent + trace->queries[i].streaming;
  }
  std::printf("%.1f touches per query, %zu lines and %zu pages recorded\n",
              touches / static_cast<double>(trace->size()), trace->lines(), trace->pages());
}
