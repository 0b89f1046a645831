#include "scan/background.hpp"

#include <cstring>
#include <future>
#include <stdexcept>
#include <string>

#include "numa/affinity.hpp"

namespace pmoss::scan {

Background::Background(const std::vector<int>& cpus, std::size_t bytes) {
  if (bytes == 0 || bytes > std::size_t{1} << 34) {
    throw std::invalid_argument("bytes is " + std::to_string(bytes) + "; must be from 1 to 2^34");
  }
  for (const int cpu : cpus) {
    std::promise<void> started;
    std::future<void> start = started.get_future();
    threads_.emplace_back(
        [this, cpu, bytes, started = std::move(started)](const std::stop_token& stop) mutable {
          std::vector<std::byte> source, target;
          try {
            numa::pin_thread(cpu);
            source.resize(bytes);  // first touched by its own thread
            target.resize(bytes);
          } catch (...) {
            started.set_exception(std::current_exception());
            return;
          }
          started.set_value();
          while (!stop.stop_requested()) {
            std::memcpy(target.data(), source.data(), bytes);
            source.swap(target);
            copied_.fetch_add(bytes, std::memory_order_relaxed);
          }
        });
    start.get();
  }
}

}  // namespace pmoss::scan
