// A small runner on whatever CPUs a host has, and what must hold of all that it measures.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "index/btree.hpp"
#include "kinds/index_kind.hpp"
#include "kinds/served_btree.hpp"
#include "numa/affinity.hpp"
#include "runtime/runner.hpp"
#include "workload/random.hpp"

namespace pmoss::runtime {

inline constexpr std::uint32_t slices = 16;

inline WorkloadSpec small_spec(double lookup, double insert, double scan, double update) {
  WorkloadSpec spec;
  spec.lookup = lookup;
  spec.insert = insert;
  spec.scan = scan;
  spec.update = update;
  spec.distribution = Distribution::zipf;
  spec.records = 20'000;
  spec.max_scan_length = 40;
  spec.seed = 5;
  return spec;
}

inline std::unique_ptr<Runner> small_runner(const WorkloadSpec& spec, unsigned load_threads = 2,
                                            const std::string& kind = "btree") {
  return kinds::make_runner(kinds::kind_named(kind), spec, {slices, false, {}}, load_threads);
}

inline const BTree& btree_of(const Runner& runner) {
  return dynamic_cast<const kinds::ServedBTree&>(runner.index()).tree();
}

// The first half of the slices on the first CPU, the rest on the last. On a host with one CPU both
// are the same, and there is one worker.
inline MeasureOptions options_for(LoadKind load) {
  const auto allowed = numa::allowed_cpus();
  const int low = allowed.front();
  const int high = allowed.back();
  MeasureOptions options;
  options.worker_cpus = low == high ? std::vector<int>{low} : std::vector<int>{low, high};
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    options.schedule.cores.push_back(slice < slices / 2 ? low : high);
  }
  options.load = load;
  options.seconds = 0.3;
  options.warmup_seconds = 0.03;
  options.seed = 11;
  return options;
}

/// How long a test of random schedules runs: PMOSS_STRESS_SECONDS, or about a second.
inline double stress_seconds() {
  const char* const asked = std::getenv("PMOSS_STRESS_SECONDS");
  return asked != nullptr ? std::atof(asked) : 1.0;
}

inline std::uint64_t sum(const std::vector<std::uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

/// How many times a test of live runs changes its schedule: PMOSS_STRESS_SWITCHES, or a few.
inline std::uint64_t stress_switches() {
  const char* const asked = std::getenv("PMOSS_STRESS_SWITCHES");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : 60;
}

/// Changes the schedule at random, lazily and at once, and reads rounds meanwhile. Then stops, and
/// expects that each query is counted in one round.
inline Measurement switch_at_random(Runner& runner, MeasureOptions options, std::uint64_t switches,
                                    const std::vector<int>& nodes) {
  options.until_stopped = true;
  options.sweep_seconds = 2e-3;
  options.kept_rounds = std::size_t{1} << 20;
  const auto run = runner.start(options);
  Random random(17);
  std::uint64_t in_rounds = 0;
  std::uint64_t in_effect = 0;
  std::uint64_t next_number = 0;
  const auto read = [&](double seconds) {
    const std::optional<Round> round = run->next_round(std::chrono::duration<double>(seconds), {});
    if (!round) return false;
    EXPECT_EQ(round->number, next_number++);
    EXPECT_EQ(round->dropped, 0U);
    EXPECT_EQ(sum(round->slice_queries), round->completed);
    EXPECT_EQ(sum(round->worker_queries), round->completed);
    EXPECT_EQ(sum(round->worker_slice_queries), round->completed);
    EXPECT_GE(round->schedules, in_effect);
    in_rounds += round->completed;
    in_effect = round->schedules;
    return true;
  };
  for (std::uint64_t number = 0; number < switches; ++number) {
    Schedule next = options.schedule;
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      next.cores[slice] = options.worker_cpus[random.below(options.worker_cpus.size())];
      if (next.data == DataPlacement::slice) next.nodes[slice] = nodes[random.below(nodes.size())];
    }
    next.routing = random.below(4) == 0 ? Routing::any : Routing::core;
    run->change(next, number % 2 == 0 ? MigrationPace::lazy : MigrationPace::aggressive);
    if (number % 8 == 7) read(60.0);
  }
  while (in_effect < switches && read(60.0)) {
  }
  EXPECT_EQ(in_effect, switches);
  const Measurement result = run->stop({});
  while (read(0.0)) {
  }
  EXPECT_EQ(in_rounds, result.completed);
  EXPECT_EQ(result.schedules, switches);
  return result;
}

/// Threads that look at an index from outside of the runtime, as long as this lives.
class Onlookers {
 public:
  /// `look` says what is wrong, or returns null.
  explicit Onlookers(const std::function<const char*(Random&)>& look) {
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      threads_.emplace_back([this, look, seed](const std::stop_token& over) {
        Random random(seed);
        while (!over.stop_requested()) {
          if (const char* const wrong = look(random); wrong != nullptr) complaint_ = wrong;
          ++looks_;
        }
      });
    }
  }
  /// Ends the threads.
  void expect_content() {
    threads_.clear();
    EXPECT_EQ(complaint_.load(), nullptr) << complaint_.load();
    EXPECT_GT(looks_.load(), 0U);
  }

 private:
  std::atomic<const char*> complaint_{nullptr};
  std::atomic<std::uint64_t> looks_{0};
  std::vector<std::jthread> threads_;
};

// What must hold whatever the load was.
inline void expect_consistent(const Measurement& result, const MeasureOptions& options) {
  EXPECT_GT(result.executed, 0U);
  EXPECT_EQ(result.issued, result.executed);  // whatever was sent was executed
  EXPECT_LE(result.completed, result.executed);
  EXPECT_EQ(sum(result.slice_queries), result.completed);
  EXPECT_EQ(sum(result.worker_queries), result.completed);
  EXPECT_EQ(sum(result.worker_slice_queries), result.completed);
  EXPECT_EQ(result.not_found, 0U);
  // On a busy host a worker may count no query while it is measured: then it may name no CPU.
  ASSERT_EQ(result.worker_cpus.size(), options.worker_cpus.size());
  for (std::size_t worker = 0; worker < options.worker_cpus.size(); ++worker) {
    const int cpu = result.worker_cpus[worker];
    if (result.worker_queries[worker] != 0 || cpu != -1) {
      EXPECT_EQ(cpu, options.worker_cpus[worker]);
    }
  }
  EXPECT_GE(result.seconds, options.seconds);
  EXPECT_LE(result.unsent, result.unanswered);
  const bool open = options.load == LoadKind::open;
  EXPECT_TRUE(open || result.unsent == 0);
  EXPECT_EQ(result.latency_p50_us > 0.0, result.completed + (open ? result.unanswered : 0) > 0);
  EXPECT_GE(result.latency_p99_us, result.latency_p50_us);
  ASSERT_EQ(result.slice_counters.size(), slices * pmu::event_count);
  ASSERT_EQ(result.slice_counted.size(), slices * pmu::event_count);
  for (std::size_t event = 0; event < pmu::event_count; ++event) {
    double counted = 0.0;
    double value = 0.0;
    for (std::size_t slice = 0; slice < slices; ++slice) {
      const double part = result.slice_counted[slice * pmu::event_count + event];
      EXPECT_LE(part, static_cast<double>(result.slice_queries[slice]) + 1e-6);
      counted += part;
      value += result.slice_counters[slice * pmu::event_count + event];
    }
    if (!result.availability[event].available()) {
      EXPECT_EQ(counted, 0.0);
      EXPECT_EQ(value, 0.0);
      EXPECT_EQ(result.running_ratio[event], 0.0);
    }
  }
}

}  // namespace pmoss::runtime
