// What a query costs its router, by the number of workers.
//
//   router_bench [TURNS [WORKERS...]]
//   router_bench served [RECORDS]
//
// The load is closed, with 32 queries for each worker and a router for each 16 workers. One of the
// routers takes turns with the workers. In its turn it sends all that it may. In theirs all of
// them, or every eighth in turn, take the queries from their queue, on other CPUs if there are any.
// So the lines of the queues go to and fro as they do in a measurement.
//
// Prints a line for each number of workers, with nanoseconds of the router per query in the median
// turn. First all workers take queries, then every eighth does. KiB of the queues follow.
//
// With "served" workers serve lookups, and routers have CPUs of their own: one for each seven
// workers. Prints the workers, the routers, Mq/s, and the share of time in which workers waited.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kinds/index_kind.hpp"
#include "numa/affinity.hpp"
#include "runtime/clock.hpp"
#include "runtime/plan.hpp"
#include "runtime/router.hpp"
#include "runtime/runner.hpp"

namespace {

using namespace pmoss;

constexpr std::uint32_t slices = 256;
constexpr std::size_t outstanding = 32, workers_per_router = 16;

/// Threads that empty the queues when they are asked to.
class Takers {
 public:
  Takers(std::vector<std::unique_ptr<runtime::Ring>>& rings, const std::vector<int>& cpus)
      : rings_(rings) {
    const std::size_t count = std::min(cpus.size(), rings.size());
    for (std::size_t i = 0; i < count; ++i) {
      threads_.emplace_back([this, i, count, cpu = cpus[i]] {
        numa::pin_thread(cpu);
        serve(i, count);
      });
    }
  }
  ~Takers() {
    stop_ = true;
    ++turn_;
    for (std::thread& thread : threads_) thread.join();
  }

  /// From each queue whose number is `first` modulo `step`; how many queries that were.
  std::uint64_t take(std::size_t first, std::size_t step) {
    first_ = first;
    step_ = step;
    done_ = 0;
    ++turn_;
    while (done_ < threads_.size()) std::this_thread::yield();
    return taken_.exchange(0);
  }

 private:
  void serve(std::size_t first, std::size_t step) {
    for (std::uint64_t turn = 1;; ++turn) {
      while (turn_ < turn) std::this_thread::yield();
      if (stop_) return;
      for (std::size_t i = first; i < rings_.size(); i += step) {
        if (i % step_ != first_) continue;
        runtime::Ring& ring = *rings_[i];
        for (std::size_t count = 0; (count = ring.readable(64)) > 0; ring.release(count)) {
          taken_ += count;
          for (std::size_t item = 0; item < count; ++item) sum_of_keys_ ^= ring.front(item).key();
        }
      }
      ++done_;
    }
  }

  std::vector<std::unique_ptr<runtime::Ring>>& rings_;
  std::vector<std::thread> threads_;
  std::size_t first_ = 0, step_ = 1;
  alignas(128) std::atomic<std::uint64_t> turn_ = 0;
  alignas(128) std::atomic<std::size_t> done_ = 0;
  std::atomic<std::uint64_t> taken_ = 0, sum_of_keys_ = 0;
  std::atomic<bool> stop_ = false;
};

/// As on a core with a second-level cache of 1 MiB, see Plan::queue_items().
std::size_t queue_items(std::size_t workers) {
  const std::size_t routers = (workers + workers_per_router - 1) / workers_per_router;
  return std::min<std::size_t>(4096, std::bit_floor(8192 / routers));
}

/// Nanoseconds per query, where one in `step` workers takes its queries in a turn.
double cost(std::size_t workers, std::size_t turns, std::size_t step) {
  WorkloadSpec spec;
  spec.records = 1'000'000;
  spec.lookup = 1.0;
  spec.insert = spec.scan = spec.update = 0.0;
  const auto index = kinds::kind_named("btree").serve(spec, {.slices = slices});
  const std::size_t routers = (workers + workers_per_router - 1) / workers_per_router;
  runtime::Routes routes;
  for (std::uint32_t slice = 0; slice <= slices; ++slice) routes.first.push_back(slice);
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    routes.workers.push_back(static_cast<std::uint32_t>(slice % workers));
  }
  const runtime::RouteBoard board(routes);
  runtime::Router::Settings settings;
  settings.routers = routers;
  settings.tokens = outstanding * workers / routers;
  settings.origin = runtime::Clock::ticks();
  runtime::Router router(settings, *index, 1, spec.records, board,
                         *std::pmr::get_default_resource());
  std::vector<std::unique_ptr<runtime::Ring>> rings;
  std::vector<runtime::Ring*> queues;
  for (std::size_t i = 0; i < workers; ++i) {
    rings.push_back(std::make_unique<runtime::Ring>(queue_items(workers)));
    queues.push_back(rings.back().get());
  }
  router.connect(queues);
  runtime::Control control;
  control.enter(runtime::Phase::measuring);
  std::vector<int> others = numa::allowed_cpus();
  const int own = others.front();
  if (others.size() > 1) others.erase(others.begin());
  numa::pin_thread(own);
  Takers takers(rings, others);
  std::vector<double> costs;
  std::uint64_t waiting = settings.tokens;
  for (std::size_t turn = 0; turn < turns * step; ++turn) {
    const std::uint64_t sent = router.totals().issued;
    const std::uint64_t begin = runtime::Clock::ticks();
    while (router.totals().issued - sent < waiting) router.step(control);
    const auto ticks = static_cast<double>(runtime::Clock::ticks() - begin);
    // A turn that had nothing to send has no cost.
    if (waiting > 0) {
      costs.push_back(ticks * runtime::Clock::ns_per_tick() / static_cast<double>(waiting));
    }
    waiting = takers.take(turn % step, step);
  }
  std::sort(costs.begin(), costs.end());
  return costs[costs.size() / 2];
}

void measure(std::size_t workers, std::size_t turns) {
  const double all = cost(workers, turns, 1), eighth = cost(workers, turns, 8);
  std::printf("%zu %.1f %.1f %zu\n", workers, all, eighth,
              workers * queue_items(workers) * sizeof(runtime::Item) / 1024);
  std::fflush(stdout);
}

void serve(std::uint64_t records) {
  WorkloadSpec spec;
  spec.records = records;
  const auto runner = kinds::make_runner(kinds::kind_named("btree"), spec, {.slices = slices});
  runner->load();
  const std::vector<int> cpus = numa::allowed_cpus();
  for (const std::size_t workers : {1, 2, 4, 8, 12, 14}) {
    const std::size_t routers = (workers + 6) / 7;
    if (workers + routers > cpus.size()) continue;
    runtime::MeasureOptions options;
    options.worker_cpus.assign(cpus.begin(), cpus.begin() + static_cast<std::ptrdiff_t>(workers));
    options.router_cpus.assign(cpus.end() - static_cast<std::ptrdiff_t>(routers), cpus.end());
    for (std::size_t slice = 0; slice < slices; ++slice) {
      options.schedule.cores.push_back(options.worker_cpus[slice % workers]);
    }
    options.outstanding_per_worker = 256;
    options.batch = 64;
    options.window = 0;
    options.sweep_seconds = 0.0;
    options.seconds = 0.5;
    const runtime::Measurement done = runner->measure(options);
    double idle = 0.0;
    for (const double time : done.worker_idle_seconds) idle += time;
    std::printf("served %zu %zu %.2f %.0f%%\n", workers, routers,
                static_cast<double>(done.completed) / done.seconds * 1e-6,
                100 * idle / done.seconds / static_cast<double>(workers));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "served") {
    serve(argc > 2 ? std::stoull(argv[2]) : 10'000'000);
    return 0;
  }
  const std::size_t turns = argc > 1 ? std::stoul(argv[1]) : 400;
  std::vector<std::size_t> workers{2, 4, 8, 14, 32, 64, 128};
  if (argc > 2) workers.clear();
  for (int i = 2; i < argc; ++i) workers.push_back(std::stoul(argv[i]));
  cost(workers.front(), turns, 1);  // the processor comes to speed
  for (const std::size_t count : workers) measure(count, turns);
}
