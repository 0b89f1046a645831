// A program's threads on a simulated server, epoch by epoch: the kernel balances queues, an agent
// pins threads, and the shared memories set the speed of each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "machine/machine.hpp"
#include "threads/memory_time.hpp"
#include "threads/program.hpp"
#include "workload/histogram.hpp"
#include "workload/random.hpp"

namespace pmoss::threads {

/// What is known of a core after an epoch; the order of the paper's table 2.
enum Input : std::size_t {
  major_faults,  // per second, of its threads
  minor_faults,  // per second
  instructions_per_cycle,
  remote_slow_accesses,  // lines per second
  local_slow_accesses,
  remote_ordinary_accesses,
  local_ordinary_accesses,
  miss_latency_ns,  // of the first-level cache
  clock_ghz,
  slow_read_gb_per_s,  // of the whole machine
  slow_write_gb_per_s,
  cpu_demand,  // runnable threads per CPU of the node that is nearest to the data
  input_count
};

/// A thread, and what it did in the latest epoch.
struct Thread {
  int cpu = 0;
  int home = 0;
  bool pinned = false;
  double debt_ns = 0;  ///< time that it must spend fetching again what a move made it lose
  double requests = 0;
  double major = 0, minor = 0;
};

class Server {
 public:
  /// Thread i has its data on `homes[i]`. The program ends after `requests` requests, which the
  /// threads take from one queue.
  Server(const Machine& machine, const SlowMemory& slow, const Program& program,
         const Kernel& kernel, std::vector<int> homes, double requests, std::uint64_t seed);

  /// Puts free threads where the kernel puts new ones: on the idlest core of the idlest node.
  void spread();
  /// Puts every thread on a CPU and pins it there.
  void place(std::span<const int> cpus);
  /// Pins a thread to a CPU. A move costs it what its caches held.
  void move(std::size_t thread, int cpu);
  /// Lets the program run; returns the seconds that it ran, fewer when it ended.
  double advance(double seconds);

  const std::vector<Thread>& threads() const noexcept { return threads_; }
  bool ended() const noexcept { return left_ <= 0.0; }
  /// [core][input] of the latest epoch.
  const std::vector<double>& inputs() const noexcept { return inputs_; }
  /// GB/s of the latest epoch, over all slow memories.
  double slow_read() const noexcept { return slow_read_; }
  double slow_write() const noexcept { return slow_write_; }
  /// Lines per second of the latest epoch.
  double local_slow() const noexcept { return local_slow_; }
  double remote_slow() const noexcept { return remote_slow_; }
  /// Share of the CPUs that worked.
  double utilisation() const noexcept { return utilisation_; }
  double requests_done() const noexcept { return done_; }
  double user_seconds() const noexcept { return user_s_; }
  double kernel_seconds() const noexcept { return kernel_s_; }
  double latency_ns(double quantile) const noexcept { return latency_.quantile(quantile); }

 private:
  void count_queues();
  void balance();
  void pull_within(int node);
  bool pull_across();
  void group_kinds();
  void account(double seconds);
  void finish_epoch(double seconds);
  std::size_t mover_on(int cpu) const;
  int idlest_cpu(int node);
  std::size_t kind_of(const Thread& thread);

  Machine machine_;
  Program program_;
  Kernel kernel_;
  MemoryTime time_;
  Random random_;
  std::vector<std::vector<int>> cpus_of_node_, siblings_;
  std::vector<Thread> threads_;
  std::vector<Kind> kinds_;
  std::vector<std::size_t> kind_of_thread_;
  std::vector<int> queue_;         // threads per CPU
  std::vector<double> node_load_;  // runnable threads per CPU
  std::vector<double> inputs_;
  std::vector<double> cycles_, instructions_, busy_s_, misses_, miss_ns_;  // per CPU, per epoch
  Histogram latency_;
  double left_ = 0;  // requests
  double first_touches_left_ = 0;
  double slow_read_ = 0, slow_write_ = 0, local_slow_ = 0, remote_slow_ = 0, utilisation_ = 0;
  double done_ = 0, user_s_ = 0, kernel_s_ = 0;
};

}  // namespace pmoss::threads
