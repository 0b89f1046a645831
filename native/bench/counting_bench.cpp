// What a worker pays for counting: CPU time per query of one with a full queue, with windows of
// counters and without. Usage: counting_bench [--keys N] [--rounds N]
//
// A router on another CPU may be late, and other programs may hold the core. So the queue is filled
// beforehand, and the thread's own time is compared. A round is the median over pairs of short
// runs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kinds/served_btree.hpp"
#include "pmu/counters.hpp"
#include "runtime/node_memory.hpp"
#include "runtime/worker.hpp"
#include "workload/keyspace.hpp"
#include "workload/random.hpp"

namespace {

using namespace pmoss;
using namespace pmoss::runtime;

constexpr std::uint32_t slices = 256;
constexpr auto warm_up = std::chrono::milliseconds(2);
constexpr auto measured = std::chrono::milliseconds(15);
constexpr int pairs_per_round = 15;

struct Run {
  double ns;  ///< CPU time per query
  double queries_per_window;
};

class Bench {
 public:
  explicit Bench(std::uint64_t keys) : index_(spec_of(keys), {slices, true, {}}), keys_(keys) {
    std::atomic<std::uint64_t> done{0};
    index_.load(0, slices, done, [] { return false; });
  }

  Run run(std::uint32_t batch, std::uint32_t window) {
    // Few queries fit into a run of single ones, and the host may stand still for a part of it.
    for (int attempt = 0; attempt < 20; ++attempt) {
      if (const Run run = try_to_run(batch, window); run.ns > 0.0) return run;
    }
    throw std::runtime_error("a worker had no time for any query");
  }

 private:
  static WorkloadSpec spec_of(std::uint64_t keys) {
    WorkloadSpec spec;
    spec.lookup = 1.0;
    spec.insert = spec.scan = spec.update = 0.0;
    spec.distribution = Distribution::uniform;
    spec.records = keys;
    spec.seed = 1;
    return spec;
  }

  Run try_to_run(std::uint32_t batch, std::uint32_t window) {
    Worker::Settings settings;
    // Enough for a run: what is left has to be executed, too.
    settings.queue_items = std::size_t{1} << (batch > 1 ? 20 : 18);
    settings.slices = slices;
    settings.window = window;
    settings.batch = batch;
    settings.origin = Clock::ticks();
    NodeMemory memory(0);
    const auto worker =
        make_in<Worker>(memory, settings, index_, pmu::ThreadCounters(pmu::probe(), {}), memory);
    fill(worker->ring(0));
    Control control;
    std::atomic<std::size_t> routers_running{0};
    control.enter(Phase::warmup);
    std::jthread phases([&control] {
      std::this_thread::sleep_for(warm_up);
      control.enter(Phase::measuring);
      std::this_thread::sleep_for(measured);
      control.enter(Phase::drain);
    });
    worker->run(control, routers_running, {});
    const Tally tally = worker->tallies().total();
    const std::size_t clock = pmu::index_of(pmu::Event::task_clock);
    if (!worker->counters().availability()[clock].available()) {
      throw std::runtime_error("this host does not count the CPU time of a thread");
    }
    // Without a query left the worker polls.
    if (tally.queries == 0 || tally.idle_ticks > 0) return {};
    const auto queries = static_cast<double>(tally.queries);
    return {static_cast<double>(tally.end.values[clock] - tally.begin.values[clock]) / queries,
            tally.windows > 0 ? queries / static_cast<double>(tally.windows) : 0.0};
  }

  void fill(Ring& ring) {
    for (std::size_t i = 0; i < ring.capacity(); ++i) {
      Operation lookup{};
      lookup.kind = Operation::Kind::lookup;
      lookup.key = key_of_record(random_.below(keys_), 1);
      const Item item(lookup, 0);
      ring.push(&item, 1);
    }
  }

  kinds::ServedBTree index_;
  std::uint64_t keys_;
  Random random_{3};
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void report(Bench& bench, std::uint32_t batch, std::uint32_t window, int rounds, bool last) {
  std::vector<double> costs, plain, queries;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> of_round;
    for (int pair = 0; pair < pairs_per_round; ++pair) {
      // In turn, so that neither has the better half of the pair.
      const bool first = pair % 2 == 0;
      const Run former = bench.run(batch, first ? 0 : window);
      const Run latter = bench.run(batch, first ? window : 0);
      const Run& off = first ? former : latter;
      const Run& on = first ? latter : former;
      of_round.push_back(100.0 * (on.ns / off.ns - 1.0));
      plain.push_back(off.ns);
      if (on.queries_per_window > 0.0) queries.push_back(on.queries_per_window);
    }
    costs.push_back(median(std::move(of_round)));
  }
  std::printf(
      "{\"batch\": %u, \"window\": %u, \"ns_per_query\": %.2f, \"queries_per_window\": %.0f,"
      " \"cost_percent\": [",
      batch, window, median(plain), queries.empty() ? 0.0 : median(queries));
  for (std::size_t i = 0; i < costs.size(); ++i) std::printf("%s%.3f", i > 0 ? ", " : "", costs[i]);
  std::printf("]}%s\n", last ? "" : ",");
}

}  // namespace

int main(int count, char** words) {
  std::uint64_t keys = 30'000'000;
  int rounds = 7;
  for (int i = 1; i + 1 < count; i += 2) {
    if (std::strcmp(words[i], "--keys") == 0) keys = std::strtoull(words[i + 1], nullptr, 10);
    if (std::strcmp(words[i], "--rounds") == 0) rounds = std::atoi(words[i + 1]);
  }
  Bench bench(keys);
  bench.run(64, 1024);
  std::printf("[\n");
  report(bench, 1, 100, rounds, false);
  report(bench, 64, 1024, rounds, true);
  std::printf("]\n");
}
