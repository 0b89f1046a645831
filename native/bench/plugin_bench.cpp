// What the way of users' libraries costs a worker: the same queries by its executor on our B+-tree,
// built in and as a library, in turn.
//
//   plugin_bench LIBRARY [RECORDS [ROUNDS]]
//
// Prints lines: mix and batch, then per round the rate as a library over the built-in rate. Rates
// are per CPU second of the thread, so other processes hardly enter.
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
#include "runtime/runner.hpp"
#include "runtime/served_index.hpp"

namespace {

using namespace pmoss;

constexpr std::uint32_t slices = 256;
/// Queries between two changes of the tree, and such changes per round and tree.
constexpr std::size_t queries_per_turn = 64 * 1024, turns = 8;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// One tree with a worker's executor.
class Served {
 public:
  Served(const std::string& kind, const WorkloadSpec& spec)
      : index_(kinds::kind_named(kind).serve(spec, {.slices = slices})), ring_(batch_limit) {
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
    for (std::size_t i = 0; i < items.size(); i += batch) {
      ring_.push(items.data() + i, batch);
      const std::size_t waiting = ring_.readable(batch);
      const EpochGuard guard;
      if (waiting == 1) {
        executor_->execute(guard, ring_.front());
      } else {
        executor_->execute_batch(guard, ring_, waiting);
      }
      ring_.release(waiting);
    }
    const double seconds = cpu_seconds() - begin;
    if (executor_->totals().not_found > 0) throw std::runtime_error("a query missed its key");
    return seconds;
  }

 private:
  static constexpr std::size_t batch_limit = 64;

  std::unique_ptr<runtime::ServedIndex> index_;
  runtime::Ring ring_;
  runtime::InNodeMemory<runtime::QueryExecutor> executor_;
  std::unique_ptr<runtime::QueryStream> stream_;
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
  Served trees[] = {{"btree", spec}, {library, spec}};
  for (Served& tree : trees) tree.run(mix.batch);
  std::printf("%s", mix.name);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    double seconds[2] = {};
    for (std::size_t turn = 0; turn < 2 * turns; ++turn) {
      // first, second, second, first ...
      const std::size_t tree = (turn + 1) / 2 % 2;
      seconds[tree] += trees[tree].run(mix.batch);
    }
    std::printf(" %.5f (%.1f)", seconds[0] / seconds[1],
                seconds[0] / turns / queries_per_turn * 1e9);
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
