// One measurement, worked out from its options before any thread starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/measure_options.hpp"
#include "runtime/roles.hpp"
#include "runtime/schedule.hpp"

namespace pmoss::runtime {

/// Nothing changes it once make_plan() has returned it.
///
/// Example: workers on CPUs 0 and 1, routers on CPUs 1 and 2. Worker 1 hosts router 0, because both
/// are on CPU 1; router 1 has a thread of its own. With 32 outstanding queries per worker there are
/// 64 tokens, and each router keeps 32 queries in flight.
struct Plan {
  const MeasureOptions& options;  ///< valid; the caller's, and must outlive the plan
  std::uint32_t slices;
  std::map<int, int> node_of;    ///< NUMA node of each CPU
  std::vector<int> router_cpus;  ///< the options', or the one that was chosen
  /// [workers] the routers on the worker's CPU, by number. They have no thread of their own: the
  /// worker routes for them between queries.
  std::vector<std::vector<std::size_t>> hosted_routers;
  std::vector<int> roles_on_router_cpu;  ///< [routers] workers and routers on the router's CPU
  bool roles_share_cores;                ///< some CPU carries more than one worker or router
  std::vector<int> nodes;                ///< those with workers, ascending
  SweeperCpus sweepers;
  std::vector<int> interleave_nodes;  ///< the options', or those with CPUs
  std::vector<SharedCore> shared_cores;
  std::vector<std::string> unbound_roles;  ///< that run wherever the kernel puts them

  std::size_t workers() const noexcept { return options.worker_cpus.size(); }
  std::size_t routers() const noexcept { return router_cpus.size(); }
  bool hosted(std::size_t router) const;
  /// Closed load: the queries that one router keeps in flight.
  std::uint64_t tokens(std::size_t router) const noexcept;
  /// Room of the queue from one router to one worker: the options', but no more than fits into the
  /// worker's second-level cache beside the index. A queue goes through all its places again and
  /// again, and what it pushes out of that cache would be counted as the slices' misses.
  std::size_t queue_items() const noexcept;
  /// Room at the router for what a worker's queue has no room for: the rest of the options'. Under
  /// a closed load all queries in flight may wait there.
  std::size_t waiting_room() const noexcept;
  /// Whether some data may have to move.
  bool enforces() const noexcept;
  /// The workers that may run each slice's queries under a schedule.
  Routes routes(const Schedule& schedule) const;
  /// As make_plan() does for those of the options.
  void validate(const Schedule& schedule) const;
};

/// Throws std::invalid_argument for options that make no sense on this host, naming the value and
/// what is right. Throws PlacementRefused if a schedule places data and the process may not.
Plan make_plan(const MeasureOptions& options, std::uint32_t slices);

}  // namespace pmoss::runtime
