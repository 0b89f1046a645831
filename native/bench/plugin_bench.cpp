// What the way of users' libraries costs a worker: the same queries by its executor on our B+-tree,
// built in and as a library, in turn.
//
//   plugin_bench LIBRARY [RECORDS [ROUNDS]]
//
// Prints lines: mix and batch, then per round the rate as a library over the built-in rate. Rates
// are per CPU second of the thread, so other processes hardly enter. "btree" as the library
// compares the built-in tree with itself.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <vector>

#include "kinds/index_kind.hpp"
#include "kinds/plugin.hpp"
#include "runtime/clock.hpp"
#include "runtime/runner.hpp"
#include "runtime/served_index.hpp"

namespace {

using namespace pmoss;

constexpr std::uint32_t slices = 256;
/// Queries between two changes of the tree, and turns of each tree per round.
constexpr std::size_t queries_per_turn = 16 * 1024, turns = 21;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// One tree with a worker's executor.
class Served {
 public:
  Served(const std::string& kind, const WorkloadSpec& spec)
      : index_(kinds::kind_named(kind).serve(spec, {.slices = slices})), ring_(burst) {
    std::atomic<std::uint64_t> done = 0;
    index_->load(0, slices, done, [] { return false; });
    executor_ = index_->executor(*std::pmr::get_default_resource());
    stream_ = index_->stream(1, spec.records, 1);
  }

  /// CPU seconds of some queries.
  double run(std::size_t batch) {
    std::vector<runtime::Item> items;
    for (std::size_t i = 0; i < queries_per_turn; ++i) items.emplace_back(stream_->next(), 0);
    const double begin = cpu_seconds();
    for (std::size_t i = 0; i < items.size(); i += burst) {
      ring_.push(items.data() + i, burst);
      // As a worker does it: one guard for a burst, and the time after each batch.
      const std::size_t waiting = ring_.readable(burst);
      const EpochGuard guard;
      for (std::size_t done = 0; done < waiting; done += batch) {
        if (batch == 1) {
          executor_->execute(guard, ring_.front());
        } else {
          executor_->execute_batch(guard, ring_, batch);
        }
        last_ = runtime::Clock::ticks();
        ring_.release(batch);
      }
    }
    const double seconds = cpu_seconds() - begin;
    if (executor_->totals().not_found > 0) throw std::runtime_error("a query missed its key");
    return seconds;
  }

 private:
  static constexpr std::size_t burst = 64;

  std::unique_ptr<runtime::ServedIndex> index_;
  runtime::Ring ring_;
  runtime::InNodeMemory<runtime::QueryExecutor> executor_;
  std::unique_ptr<runtime::QueryStream> stream_;
  std::uint64_t last_ = 0;
};

struct Mix {
  const char* name;
  double lookup, update, scan;
  std::size_t batch;
};

void compare(const Mix& mix, const std::string& library, std::uint64_t records,
             std::uint64_t rounds) {
  WorkloadSpec spec;
  spec.records = records;
  spec.lookup = mix.lookup;
  spec.update = mix.update;
  spec.scan = mix.scan;
  spec.insert = 0.0;
  std::printf("%s", mix.name);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    // Trees of its own for each round, and the other one first: on which pages a tree lies changes
    // its rate by a quarter, and stays so while it lives.
    const std::string kinds[] = {"btree", library};
    std::unique_ptr<Served> trees[2];
    for (const std::size_t tree : {round % 2, 1 - round % 2}) {
      trees[tree] = std::make_unique<Served>(kinds[tree], spec);
    }
    for (const auto& tree : trees) tree->run(mix.batch);
    // Neighbours in time are alike on a busy host: one ratio for each pair of turns.
    std::vector<double> ratios;
    for (std::size_t turn = 0; turn < turns; ++turn) {
      double seconds[2] = {};
      for (const std::size_t tree : {turn % 2, 1 - turn % 2})
        seconds[tree] = trees[tree]->run(mix.batch);
      ratios.push_back(seconds[0] / seconds[1]);
    }
    std::nth_element(ratios.begin(), ratios.begin() + turns / 2, ratios.end());
    std::printf(" %.5f", ratios[turns / 2]);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "plugin_bench LIBRARY [RECORDS [ROUNDS]]\n");
    return 2;
  }
  const std::string named = argv[1];
  const std::string library = named == "btree" ? named : kinds::register_plugin(named);
  const std::uint64_t records = argc > 2 ? std::stoull(argv[2]) : 3'000'000;
  const std::uint64_t rounds = argc > 3 ? std::stoull(argv[3]) : 7;
  for (const Mix& mix :
       {Mix{"lookups,64", 1.0, 0.0, 0.0, 64}, Mix{"lookups,1", 1.0, 0.0, 0.0, 1},
        Mix{"half-updates,64", 0.5, 0.5, 0.0, 64}, Mix{"short-scans,64", 0.5, 0.0, 0.5, 64}}) {
    compare(mix, library, records, rounds);
  }
}
