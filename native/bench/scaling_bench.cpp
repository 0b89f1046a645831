// Throughput of indexes on several threads, without routers: each thread executes queries of its
// own.
//
//   scaling_bench RECORDS SECONDS ROUNDS THREADS[,THREADS...] INDEX...
//
// An INDEX is "btree", or a library of a user (pmoss/index.h). The built-in one is measured twice:
// with one query at a time, and with 64. Thread i is bound to the i-th CPU, where CPUs that share a
// core with an earlier one come last. Its queries are drawn before the clock starts. Uniform keys
// and Zipf's; in each round the indexes take turns, every other round in reverse.
//
// Prints a line for each mix, distribution, number of threads and index, separated by tabs, and
// then its Mq/s in each round.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <memory_resource>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kinds/index_kind.hpp"
#include "kinds/plugin.hpp"
#include "numa/affinity.hpp"
#include "numa/topology.hpp"
#include "runtime/served_index.hpp"

namespace {

using namespace pmoss;

constexpr std::uint32_t slices = 256;
constexpr std::size_t drawn_queries = 1 << 20;

struct Mix {
  const char* name;
  double lookup, update, insert, scan;
};
// Inserts come last: they make the index larger.
constexpr Mix mixes[] = {
    {"lookups", 1, 0, 0, 0},
    {"updates", 0, 1, 0, 0},
    {"scans", 0, 0, 0, 1},
    {"inserts", 0, 0, 1, 0},
};

/// Those that share no core with an earlier one first.
std::vector<int> cpus_by_core() {
  const std::vector<int> allowed = numa::allowed_cpus();
  std::set<int> taken;
  std::vector<int> first, others;
  for (const numa::Cpu& cpu : numa::read_topology().cpus) {
    if (!std::binary_search(allowed.begin(), allowed.end(), cpu.id)) continue;
    (taken.contains(cpu.id) ? others : first).push_back(cpu.id);
    taken.insert(cpu.siblings.begin(), cpu.siblings.end());
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

/// Runs `work` on so many threads, each on its CPU, and hands on what one of them threw.
void on_threads(std::size_t count, const std::vector<int>& cpus,
                const std::function<void(std::size_t)>& work) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(count);
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        numa::pin_thread(cpus[i]);
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

class Served {
 public:
  Served(const std::string& kind, std::uint64_t records, const std::vector<int>& cpus)
      : cpus_(cpus), next_insert_record_(records) {
    spec_.records = records;
    index_ = kinds::kind_named(kind).serve(spec_, {.slices = slices});
    std::atomic<std::uint64_t> done = 0;
    on_threads(cpus.size(), cpus, [&](std::size_t i) {
      const auto part = [&](std::size_t n) {
        return static_cast<std::uint32_t>(n * slices / cpus.size());
      };
      if (part(i) < part(i + 1)) index_->load(part(i), part(i + 1), done, [] { return false; });
    });
  }

  /// Mq/s of all threads together.
  double run(const Mix& mix, Distribution distribution, std::size_t threads, std::size_t batch,
             double seconds, std::uint64_t seed) {
    WorkloadSpec spec = spec_;
    spec.lookup = mix.lookup;
    spec.update = mix.update;
    spec.insert = mix.insert;
    spec.scan = mix.scan;
    spec.distribution = distribution;
    const auto drawing = kinds::kind_named("btree").serve(spec, {.slices = slices});
    std::atomic<std::size_t> ready = 0;
    std::vector<double> rates(threads);
    on_threads(threads, cpus_, [&](std::size_t i) {
      const auto stream = drawing->stream(seed * 1000 + i, next_insert_record_ + i, threads);
      std::vector<runtime::Item> items;
      items.reserve(drawn_queries);
      for (std::size_t n = 0; n < drawn_queries; ++n) items.emplace_back(stream->next(), 0);
      const auto executor = index_->executor(*std::pmr::get_default_resource());
      ++ready;
      while (ready < threads) {
      }
      rates[i] = execute(*executor, items, batch, seconds, mix.insert > 0.0);
      if (executor->totals().not_found > 0) throw std::runtime_error("a query missed its key");
    });
    if (mix.insert > 0.0) next_insert_record_ += drawn_queries * threads;
    double sum = 0.0;
    for (const double rate : rates) sum += rate;
    return sum;
  }

 private:
  static double execute(runtime::QueryExecutor& executor, const std::vector<runtime::Item>& items,
                        std::size_t batch, double seconds, bool once) {
    constexpr std::size_t burst = 64;
    runtime::Ring ring(burst);
    const auto begin = std::chrono::steady_clock::now();
    double passed = 0.0;
    std::size_t done = 0;
    for (std::size_t at = 0; passed < seconds; at += burst) {
      if (at == items.size()) {
        if (once) break;
        at = 0;
      }
      const EpochGuard guard;
      if (batch == 1) {
        for (std::size_t i = 0; i < burst; ++i) executor.execute(guard, items[at + i]);
      } else {
        ring.push(&items[at], burst);
        ring.readable(burst);
        executor.execute_batch(guard, ring, burst);
        ring.release(burst);
      }
      done += burst;
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      passed = time.count();
    }
    return static_cast<double>(done) / passed * 1e-6;
  }

  const std::vector<int>& cpus_;
  WorkloadSpec spec_;
  std::uint64_t next_insert_record_;
  std::unique_ptr<runtime::ServedIndex> index_;
};

struct Way {
  std::string name;
  std::size_t index, batch;
};

void compare(std::uint64_t records, double seconds, std::size_t rounds,
             const std::vector<std::size_t>& threads, const std::vector<std::string>& kinds) {
  const std::vector<int> cpus = cpus_by_core();
  if (*std::max_element(threads.begin(), threads.end()) > cpus.size()) {
    throw std::invalid_argument("more threads than the " + std::to_string(cpus.size()) +
                                " CPUs of this process");
  }
  std::vector<std::unique_ptr<Served>> served;
  std::vector<Way> ways;
  for (const std::string& kind : kinds) {
    const bool own = kind == "btree";
    const std::string name = own ? kind : kinds::register_plugin(kind);
    served.push_back(std::make_unique<Served>(name, records, cpus));
    if (own) ways.push_back({"built in, one at a time", served.size() - 1, 1});
    ways.push_back({own ? "built in, batches of 64" : kind, served.size() - 1, 64});
  }
  for (const Mix& mix : mixes) {
    for (const Distribution distribution : {Distribution::uniform, Distribution::zipf}) {
      // New keys are new in both.
      const bool uniform = distribution == Distribution::uniform;
      if (!uniform && mix.insert > 0.0) continue;
      for (const std::size_t count : threads) {
        std::vector<std::vector<double>> rates(ways.size(), std::vector<double>(rounds));
        for (std::size_t round = 0; round < rounds; ++round) {
          for (std::size_t n = 0; n < ways.size(); ++n) {
            const std::size_t way = round % 2 == 0 ? n : ways.size() - 1 - n;
            rates[way][round] = served[ways[way].index]->run(mix, distribution, count,
                                                             ways[way].batch, seconds, round);
          }
        }
        for (std::size_t way = 0; way < ways.size(); ++way) {
          std::printf("%s\t%s\t%zu\t%s", mix.name, uniform ? "uniform" : "zipf", count,
                      ways[way].name.c_str());
          for (const double rate : rates[way]) std::printf("\t%.4f", rate);
          std::printf("\n");
        }
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr,
                 "scaling_bench RECORDS SECONDS ROUNDS THREADS[,THREADS...] INDEX [INDEX...]\n");
    return 2;
  }
  std::vector<std::size_t> threads;
  std::istringstream list(argv[4]);
  for (std::string word; std::getline(list, word, ',');) threads.push_back(std::stoul(word));
  try {
    compare(std::stoull(argv[1]), std::stod(argv[2]), std::stoul(argv[3]), threads,
            {argv + 5, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
