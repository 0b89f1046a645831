// Threads that move memory all the time: the co-tenants of a measured scan.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace pmoss::scan {

/// Copies memory in threads until it is destroyed.
class Background {
 public:
  /// One thread per CPU of `cpus`; each copies `bytes` to and fro.
  Background(const std::vector<int>& cpus, std::size_t bytes);
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() = default;  // the threads are asked to stop, and joined

  /// Bytes copied since the beginning, by all threads.
  std::uint64_t bytes_copied() const noexcept { return copied_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> copied_{0};
  std::vector<std::jthread> threads_;
};

}  // namespace pmoss::scan
