// Which workers run the queries of each slice, where its data lie, and how a new schedule reaches
// routers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "machine/placement.hpp"

namespace pmoss::runtime {

/// A schedule of this host, by the kernel's numbers (pmoss::Placement is one of a model).
struct Schedule {
  std::vector<int> cores;  ///< the CPU of each slice; not used unless the routing is `core`
  std::vector<int> nodes;  ///< the node of each slice's data; empty if nothing needs it
  Routing routing = Routing::core;
  DataPlacement data = DataPlacement::keep;
};

/// The workers that may run the queries of each slice, by their numbers.
struct Routes {
  std::vector<std::uint32_t> first;  ///< [slices + 1]: where a slice's workers begin in `workers`
  std::vector<std::uint32_t> workers;

  std::uint32_t slices() const noexcept { return static_cast<std::uint32_t>(first.size() - 1); }
};

/// Passes a new schedule from the enforcer to the routers. A router reads the version, which is
/// rarely written, at every step. It takes a copy of the schedule when the version has changed.
class RouteBoard {
 public:
  explicit RouteBoard(Routes routes) : routes_(std::make_shared<const Routes>(std::move(routes))) {}

  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }

  void publish(Routes routes) {
    auto next = std::make_shared<const Routes>(std::move(routes));
    const std::lock_guard lock(mutex_);
    routes_.swap(next);
    version_.fetch_add(1, std::memory_order_release);
  }

  Routes copy() const {
    std::shared_ptr<const Routes> routes;
    {
      const std::lock_guard lock(mutex_);
      routes = routes_;
    }
    return *routes;
  }

 private:
  alignas(128) std::atomic<std::uint64_t> version_{0};
  alignas(128) mutable std::mutex mutex_;
  std::shared_ptr<const Routes> routes_;
};

}  // namespace pmoss::runtime
