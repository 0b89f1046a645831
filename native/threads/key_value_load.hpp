// A key-value store under load: real threads that copy real values, as a target to schedule.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "workload/histogram.hpp"

namespace pmoss::threads {

struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* values) const noexcept;
};

struct LoadOptions {
  int threads = 4;
  double write_share = 0;
  bool sequential = false;
  std::size_t keys = 2000;
  std::size_t value_bytes = 100000;
  int node = -1;               ///< where the values lie; -1: where the kernel puts them
  std::uint64_t requests = 0;  ///< end after so many; 0: run until stopped
  std::uint64_t seed = 0;
};

/// Keys of 16 bytes in a hash table, values in one mapping. As in a persistent store, a value that
/// is read goes to a buffer fresh from the allocator. A value that is written goes to its place.
/// Requests take turns per value.
class KeyValueLoad {
 public:
  /// Fills the store. Throws std::invalid_argument, or std::system_error where memory or the
  /// binding to the node is refused.
  explicit KeyValueLoad(const LoadOptions& options);
  ~KeyValueLoad();
  KeyValueLoad(const KeyValueLoad&) = delete;
  KeyValueLoad& operator=(const KeyValueLoad&) = delete;

  void start();
  /// Ends the threads; safe to repeat.
  void stop();

  bool running() const noexcept { return active_.load() > 0; }
  std::uint64_t requests() const noexcept;
  /// Values that were not what had been stored under their key: always 0.
  std::uint64_t damaged() const noexcept { return damaged_.load(); }
  /// Of all requests, in ns; call it after stop().
  double latency_ns(double quantile) const noexcept;

 private:
  struct Key {
    std::uint64_t high = 0, low = 0;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::uint64_t value = empty;
  };
  struct alignas(64) Worker {
    std::atomic<std::uint64_t> requests{0};
    Histogram latency;
  };
  static constexpr std::uint64_t empty = ~std::uint64_t{0};

  Key key_of(std::uint64_t number) const noexcept;
  std::uint64_t find(const Key& key) const noexcept;
  void serve(std::size_t worker);
  void read(std::uint64_t number);
  void write(std::uint64_t number, std::byte* buffer);

  LoadOptions options_;
  std::unique_ptr<std::byte[], Unmap> values_;
  std::vector<Entry> table_;
  std::vector<std::mutex> locks_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::jthread> threads_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> active_{0};
  std::atomic<std::uint64_t> taken_{0}, damaged_{0};
};

}  // namespace pmoss::threads
