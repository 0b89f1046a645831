#include "threads/server.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace pmoss::threads {
namespace {

constexpr double line_bytes = 64.0;
constexpr double huge_page = 2097152.0;
// Counters of a thread are read at some moment of its turn, not all at once.
constexpr double counter_noise = 0.02;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void check(bool good, const std::string& what) {
  if (!good) throw std::invalid_argument(what);
}

}  // namespace

Server::Server(const Machine& machine, const SlowMemory& slow, const Program& program,
               const Kernel& kernel, std::vector<int> homes, double requests, std::uint64_t seed)
    : machine_(machine),
      program_(program),
      kernel_(kernel),
      time_(machine, slow, program, kernel),
      random_(seed) {
  check(!homes.empty(), "threads = 0: must be at least 1");
  check(requests > 0.0, "requests = " + std::to_string(requests) + ": must be positive");
  check(program.value_bytes > 0.0,
        "value_bytes = " + std::to_string(program.value_bytes) + ": must be positive");
  cpus_of_node_.resize(at(machine_.nodes()));
  siblings_.resize(at(machine_.cores()));
  for (int cpu = 0; cpu < machine_.cores(); ++cpu) {
    cpus_of_node_[at(machine_.node_of_core[at(cpu)])].push_back(cpu);
    for (int other = 0; other < machine_.cores(); ++other) {
      if (other != cpu &&
          machine_.physical_of_core[at(other)] == machine_.physical_of_core[at(cpu)])
        siblings_[at(cpu)].push_back(other);
    }
  }
  for (const int home : homes) {
    check(home >= 0 && home < machine_.nodes(), "home = " + std::to_string(home) +
                                                    ": the machine has " +
                                                    std::to_string(machine_.nodes()) + " nodes");
    Thread thread;
    thread.home = home;
    threads_.push_back(thread);
  }
  left_ = requests;
  first_touches_left_ = program_.first_touches;
  kind_of_thread_.resize(threads_.size());
  kinds_.reserve(threads_.size());
  const std::size_t cores = at(machine_.cores());
  queue_.assign(cores, 0);
  node_load_.assign(at(machine_.nodes()), 0.0);
  inputs_.assign(cores * input_count, 0.0);
  for (auto* sums : {&cycles_, &instructions_, &busy_s_, &misses_, &miss_ns_}) {
    sums->assign(cores, 0.0);
  }
  spread();
}

void Server::count_queues() {
  std::fill(queue_.begin(), queue_.end(), 0);
  std::fill(node_load_.begin(), node_load_.end(), 0.0);
  for (const Thread& thread : threads_) {
    ++queue_[at(thread.cpu)];
    const std::size_t node = at(machine_.node_of_core[at(thread.cpu)]);
    node_load_[node] += 1.0 / static_cast<double>(cpus_of_node_[node].size());
  }
}

int Server::idlest_cpu(int node) {
  int best = -1;
  int best_load = std::numeric_limits<int>::max();
  std::uint64_t ties = 0;
  for (const int cpu : cpus_of_node_[at(node)]) {
    // A busy sibling counts, but less than a thread on the CPU itself.
    int load = 2 * queue_[at(cpu)];
    for (const int sibling : siblings_[at(cpu)]) load += queue_[at(sibling)] > 0 ? 1 : 0;
    if (load < best_load) {
      best = cpu;
      best_load = load;
      ties = 1;
    } else if (load == best_load && random_.below(++ties) == 0) {
      best = cpu;
    }
  }
  return best;
}

void Server::spread() {
  count_queues();
  for (Thread& thread : threads_) {
    if (thread.pinned) continue;
    --queue_[at(thread.cpu)];
  }
  std::fill(node_load_.begin(), node_load_.end(), 0.0);
  for (std::size_t node = 0; node < node_load_.size(); ++node) {
    for (const int cpu : cpus_of_node_[node]) {
      node_load_[node] += queue_[at(cpu)] / static_cast<double>(cpus_of_node_[node].size());
    }
  }
  for (Thread& thread : threads_) {
    if (thread.pinned) continue;
    int best = -1;
    std::uint64_t ties = 1;
    for (int node = 0; node < machine_.nodes(); ++node) {
      if (cpus_of_node_[at(node)].empty()) continue;
      if (best < 0 || node_load_[at(node)] < node_load_[at(best)] - 1e-9) {
        best = node;
        ties = 1;
      } else if (node_load_[at(node)] < node_load_[at(best)] + 1e-9 && random_.below(++ties) == 0) {
        best = node;
      }
    }
    thread.cpu = idlest_cpu(best);
    ++queue_[at(thread.cpu)];
    node_load_[at(best)] += 1.0 / static_cast<double>(cpus_of_node_[at(best)].size());
  }
}

void Server::place(std::span<const int> cpus) {
  check(cpus.size() == threads_.size(),
        "cpus = " + std::to_string(cpus.size()) + ": must be " + std::to_string(threads_.size()));
  for (std::size_t i = 0; i < cpus.size(); ++i) move(i, cpus[i]);
}

void Server::move(std::size_t thread, int cpu) {
  check(thread < threads_.size(),
        "thread = " + std::to_string(thread) + ": there are " + std::to_string(threads_.size()));
  check(cpu >= 0 && cpu < machine_.cores(),
        "cpu = " + std::to_string(cpu) + ": there are " + std::to_string(machine_.cores()));
  Thread& moved = threads_[thread];
  moved.pinned = true;
  if (moved.cpu == cpu) return;
  moved.cpu = cpu;
  moved.debt_ns += kernel_.move_lines *
                   machine_.dram_latency(machine_.node_of_core[at(cpu)], moved.home) /
                   machine_.mlp_streaming;
}

std::size_t Server::mover_on(int cpu) const {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    const Thread& thread = threads_[i];
    if (!thread.pinned && thread.cpu == cpu) return i;
  }
  return threads_.size();
}

// Longest queue to shortest, as long as two or more lie between them.
void Server::pull_within(int node) {
  const auto& cpus = cpus_of_node_[at(node)];
  for (std::size_t moves = 0; moves < threads_.size(); ++moves) {
    const int to = idlest_cpu(node);
    int from = -1;
    std::size_t mover = threads_.size();
    for (const int cpu : cpus) {
      if (queue_[at(cpu)] < queue_[at(to)] + 2) continue;
      if (from >= 0 && queue_[at(cpu)] <= queue_[at(from)]) continue;
      const std::size_t candidate = mover_on(cpu);
      if (candidate == threads_.size()) continue;
      from = cpu;
      mover = candidate;
    }
    if (from < 0) return;
    threads_[mover].cpu = to;
    --queue_[at(from)];
    ++queue_[at(to)];
  }
}

bool Server::pull_across() {
  int busiest = -1, idlest = -1;
  for (int node = 0; node < machine_.nodes(); ++node) {
    if (cpus_of_node_[at(node)].empty()) continue;
    if (idlest < 0 || node_load_[at(node)] < node_load_[at(idlest)]) idlest = node;
    if (busiest < 0 || node_load_[at(node)] > node_load_[at(busiest)]) busiest = node;
  }
  const double share_from = 1.0 / static_cast<double>(cpus_of_node_[at(busiest)].size());
  const double share_to = 1.0 / static_cast<double>(cpus_of_node_[at(idlest)].size());
  const double gap = node_load_[at(busiest)] - node_load_[at(idlest)];
  if (node_load_[at(busiest)] <= kernel_.node_imbalance * node_load_[at(idlest)] ||
      gap < share_from + share_to) {
    return false;
  }
  std::size_t mover = threads_.size();
  for (const int cpu : cpus_of_node_[at(busiest)]) {
    const std::size_t candidate = mover_on(cpu);
    if (candidate == threads_.size()) continue;
    if (mover == threads_.size() || queue_[at(cpu)] > queue_[at(threads_[mover].cpu)]) {
      mover = candidate;
    }
  }
  if (mover == threads_.size()) return false;
  const int to = idlest_cpu(idlest);
  // A full core is no better than the one that the thread waits on.
  if (queue_[at(to)] > queue_[at(threads_[mover].cpu)]) return false;
  --queue_[at(threads_[mover].cpu)];
  ++queue_[at(to)];
  threads_[mover].cpu = to;
  node_load_[at(busiest)] -= share_from;
  node_load_[at(idlest)] += share_to;
  return true;
}

void Server::balance() {
  count_queues();
  for (int node = 0; node < machine_.nodes(); ++node) {
    if (!cpus_of_node_[at(node)].empty()) pull_within(node);
  }
  for (std::size_t moves = 0; moves < threads_.size() && pull_across(); ++moves) {
  }
}

std::size_t Server::kind_of(const Thread& thread) {
  const int node = machine_.node_of_core[at(thread.cpu)];
  bool sibling = false;
  for (const int other : siblings_[at(thread.cpu)]) sibling = sibling || queue_[at(other)] > 0;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const Kind& kind = kinds_[i];
    if (kind.cpu_node == node && kind.home == thread.home &&
        kind.on_cpu == queue_[at(thread.cpu)] && kind.sibling == sibling) {
      return i;
    }
  }
  Kind kind;
  kind.cpu_node = node;
  kind.home = thread.home;
  kind.on_cpu = queue_[at(thread.cpu)];
  kind.sibling = sibling;
  kinds_.push_back(kind);
  return kinds_.size() - 1;
}

void Server::group_kinds() {
  kinds_.clear();
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    kind_of_thread_[i] = kind_of(threads_[i]);
    kinds_[kind_of_thread_[i]].threads += 1.0;
  }
}

double Server::advance(double seconds) {
  check(seconds > 0.0, "seconds = " + std::to_string(seconds) + ": must be positive");
  for (Thread& thread : threads_) thread.requests = thread.major = thread.minor = 0.0;
  for (auto* sums : {&cycles_, &instructions_, &busy_s_, &misses_, &miss_ns_}) {
    std::fill(sums->begin(), sums->end(), 0.0);
  }
  std::fill(inputs_.begin(), inputs_.end(), 0.0);
  slow_read_ = slow_write_ = local_slow_ = remote_slow_ = utilisation_ = 0.0;
  if (ended()) return 0.0;
  balance();
  group_kinds();
  time_.solve(kinds_);
  double per_second = 0.0;
  for (const Kind& kind : kinds_) per_second += kind.threads * kind.rate();
  const double passed = std::min(seconds, left_ / per_second);
  account(passed);
  finish_epoch(passed);
  // What is left after a last, shorter epoch is rounding.
  if (passed < seconds) left_ = 0.0;
  return passed;
}

void Server::account(double seconds) {
  const double reads = 1.0 - program_.write_share;
  const double faults = reads * program_.read_faults + program_.write_share * program_.write_faults;
  const double lines = program_.value_bytes / line_bytes;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    const Kind& kind = kinds_[kind_of_thread_[i]];
    const double lost = std::min(thread.debt_ns * 1e-9, seconds);
    thread.debt_ns -= lost * 1e9;
    const double done = (seconds - lost) * kind.rate();
    left_ -= done;
    thread.requests += done;
    done_ += done;
    const double touches = std::min(done * lines * line_bytes / huge_page, first_touches_left_);
    first_touches_left_ -= touches;
    thread.major += touches;
    const double noise = 1.0 + counter_noise * (2.0 * random_.uniform() - 1.0);
    thread.minor += done * faults * noise;

    const std::size_t cpu = at(thread.cpu);
    const double on_cpu_s = seconds / kind.on_cpu;
    const double of_user = kind.user_ns / kind.request_ns();
    const double of_kernel = kind.kernel_ns / kind.request_ns();
    busy_s_[cpu] += on_cpu_s;
    cycles_[cpu] += on_cpu_s * kind.ghz * 1e9;
    instructions_[cpu] += on_cpu_s * kind.ghz * 1e9 * (of_user + of_kernel) *
                          machine_.instructions_per_cycle *
                          (kind.sibling ? machine_.smt_share : 1.0);
    kernel_s_ += on_cpu_s * of_kernel;
    user_s_ += on_cpu_s * (1.0 - of_kernel);

    double* input = &inputs_[cpu * input_count];
    const double slow_lines = done * (lines + program_.index_lines);
    const bool remote = time_.is_remote(kind.cpu_node, kind.home);
    if (time_.is_slow(kind.home)) {
      input[remote ? remote_slow_accesses : local_slow_accesses] += slow_lines;
      (remote ? remote_slow_ : local_slow_) += slow_lines;
      slow_read_ +=
          done * 1e-9 * (reads * program_.value_bytes + program_.index_lines * line_bytes);
      slow_write_ += done * 1e-9 * program_.write_share * program_.value_bytes;
    } else {
      input[remote ? remote_ordinary_accesses : local_ordinary_accesses] += slow_lines;
    }
    input[local_ordinary_accesses] += done * program_.ordinary_lines;
    // Loads that miss the first level: the lines of what is read and of the index; what is written
    // comes from a buffer that the last level holds, and stores wait for nothing.
    const double loads = reads * lines, stores = program_.write_share * lines;
    misses_[cpu] += done * (loads + stores + program_.index_lines);
    miss_ns_[cpu] += done * (loads * kind.line_ns + program_.index_lines * kind.index_ns +
                             stores * machine_.llc_ns);

    // A request that is longer than what is left of a turn waits for the others' turns.
    const double request_s = kind.request_ns() * 1e-9;
    const double waits = kind.on_cpu > 1 ? request_s / kernel_.slice_s : 0.0;
    const double whole = std::floor(waits);
    const double turn = (kind.on_cpu - 1) * kernel_.slice_s;
    const auto count = [&](double share, double latency_s) {
      latency_.add(static_cast<std::uint64_t>(latency_s * 1e9),
                   static_cast<std::uint64_t>(share * done * 1e3));
    };
    count(1.0 - (waits - whole), request_s + whole * turn);
    count(waits - whole, request_s + (whole + 1.0) * turn);
  }
}

void Server::finish_epoch(double seconds) {
  double busy = 0.0;
  for (int cpu = 0; cpu < machine_.cores(); ++cpu) {
    const std::size_t i = at(cpu);
    double* input = &inputs_[i * input_count];
    for (const auto rate : {remote_slow_accesses, local_slow_accesses, remote_ordinary_accesses,
                            local_ordinary_accesses}) {
      input[rate] /= seconds;
    }
    if (cycles_[i] > 0.0) input[instructions_per_cycle] = instructions_[i] / cycles_[i];
    if (misses_[i] > 0.0) input[miss_latency_ns] = miss_ns_[i] / misses_[i];
    input[clock_ghz] = busy_s_[i] > 0.0 ? cycles_[i] / busy_s_[i] * 1e-9 : machine_.clock_ghz;
    input[slow_read_gb_per_s] = slow_read_ / seconds;
    input[slow_write_gb_per_s] = slow_write_ / seconds;
    busy += std::min(busy_s_[i] / seconds, 1.0);
  }
  for (const Thread& thread : threads_) {
    double* input = &inputs_[at(thread.cpu) * input_count];
    input[major_faults] += thread.major / seconds;
    input[minor_faults] += thread.minor / seconds;
    input[cpu_demand] = node_load_[at(time_.cores_near(thread.home))];
  }
  slow_read_ /= seconds;
  slow_write_ /= seconds;
  local_slow_ /= seconds;
  remote_slow_ /= seconds;
  utilisation_ = busy / static_cast<double>(machine_.cores());
}

}  // namespace pmoss::threads
