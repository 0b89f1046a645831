#include "runtime/plan.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <set>
#include <stdexcept>
#include <string>

#include "numa/affinity.hpp"
#include "numa/memory.hpp"
#include "numa/topology.hpp"
#include "runtime/errors.hpp"
#include "runtime/item.hpp"
#include "runtime/worker.hpp"

namespace pmoss::runtime {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

std::string text(double value) {
  std::array<char, 32> digits;  // the shortest form of any double has at most 24
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return std::string(digits.data(), end);
}
std::string text(std::uint32_t value) { return std::to_string(value); }

template <typename Value>
[[noreturn]] void refuse(const char* name, Value value, const std::string& right) {
  refuse(std::string(name) + " is " + text(value) + "; it must " + right);
}

void require_distinct(const std::vector<int>& worker_cpus) {
  std::set<int> distinct;
  for (const int cpu : worker_cpus) {
    if (!distinct.insert(cpu).second) {
      refuse("worker_cpus names CPU " + std::to_string(cpu) +
             " twice; it must name each CPU at most once");
    }
  }
}

void require_allowed(const std::vector<int>& cpus, const std::set<int>& allowed,
                     const char* role_name) {
  for (const int cpu : cpus) {
    if (!allowed.contains(cpu)) {
      refuse(std::string(role_name) + ": CPU " + std::to_string(cpu) +
             " is not one that this process may use");
    }
  }
}

/// Without these calls the place of the data during a measurement would be unknown.
void require_placement(const Schedule& schedule) {
  if (schedule.data == DataPlacement::keep) return;
  const int error = numa::refused_placement();
  if (error == 0) return;
  throw PlacementRefused("the schedule places data, and this process may not place memory: " +
                         numa::explain_memory_error(error) +
                         "; or take data \"keep\", with which everything stays where it is");
}

std::vector<int> choose_interleave_nodes(const MeasureOptions& options,
                                         const numa::Topology& topology) {
  const std::vector<int> memory = numa::memory_nodes();
  const std::vector<int>& asked = options.migration.interleave_nodes;
  for (const int node : asked) {
    if (!std::binary_search(memory.begin(), memory.end(), node)) {
      refuse("interleave_nodes names node " + std::to_string(node) +
             ", which has no memory that this process may use");
    }
  }
  if (asked.empty()) return numa::nodes_to_interleave(topology, memory);
  const std::set<int> ascending(asked.begin(), asked.end());
  return {ascending.begin(), ascending.end()};
}

bool needs_nodes(const Schedule& schedule) {
  return schedule.routing == Routing::node || schedule.data == DataPlacement::slice ||
         schedule.data == DataPlacement::first_touch;
}

void validate_data(DataPlacement data) {
  if (data == DataPlacement::loader) {
    refuse("data is loader, which only models know; on hardware it is first_touch");
  }
}

void validate_cores(const Schedule& schedule, std::uint32_t slices, const std::set<int>& workers) {
  if (schedule.cores.size() != slices) {
    refuse("cores has " + std::to_string(schedule.cores.size()) + " entries for " +
           std::to_string(slices) + " slices");
  }
  for (std::size_t slice = 0; slice < slices; ++slice) {
    if (!workers.contains(schedule.cores[slice])) {
      refuse("slice " + std::to_string(slice) + " is on CPU " +
             std::to_string(schedule.cores[slice]) + ", which has no worker");
    }
  }
}

void validate_nodes(const Schedule& schedule, std::uint32_t slices, const std::set<int>& workers,
                    const std::map<int, int>& node_of) {
  if (schedule.nodes.size() != slices) {
    refuse("nodes has " + std::to_string(schedule.nodes.size()) + " entries for " +
           std::to_string(slices) + " slices");
  }
  const std::vector<int> memory = numa::memory_nodes();
  std::set<int> with_workers;
  for (const int cpu : workers) with_workers.insert(node_of.at(cpu));
  for (std::size_t slice = 0; slice < slices; ++slice) {
    const int node = schedule.nodes[slice];
    if (schedule.data != DataPlacement::keep &&
        !std::binary_search(memory.begin(), memory.end(), node)) {
      refuse("slice " + std::to_string(slice) + " has its data on node " + std::to_string(node) +
             ", which has no memory that this process may use: name another node, run on CPUs of "
             "other nodes (taskset), or allow that memory (cpuset.mems)");
    }
    if (schedule.routing == Routing::node && !with_workers.contains(node)) {
      refuse("slice " + std::to_string(slice) + " is routed to the workers of node " +
             std::to_string(node) + ", which has none");
    }
  }
}

void validate_cpus(const MeasureOptions& options, const std::set<int>& allowed) {
  if (options.worker_cpus.empty()) refuse("worker_cpus is empty; it must name at least one CPU");
  require_distinct(options.worker_cpus);
  require_allowed(options.worker_cpus, allowed, "worker_cpus");
  require_allowed(options.router_cpus, allowed, "router_cpus");
  for (const CoTenant& co_tenant : options.co_tenants) {
    require_allowed({co_tenant.cpu}, allowed, "co_tenants");
    if (!(co_tenant.strength > 0.0 && co_tenant.strength < 1.0)) {
      refuse("a co-tenant's strength", co_tenant.strength, "lie between 0 and 1");
    }
  }
  require_allowed(options.sweeper_cpus, allowed, "sweeper_cpus");
}

void validate_numbers(const MeasureOptions& options) {
  if (options.batch == 0 || options.batch > Worker::max_batch) {
    refuse("batch", options.batch, "lie in 1 .. " + std::to_string(Worker::max_batch));
  }
  if (!options.until_stopped && !(options.seconds > 0.0 && options.seconds <= 3600.0)) {
    refuse("seconds", options.seconds, "be above 0 and at most 3600");
  }
  if (options.until_stopped &&
      !(options.sweep_seconds >= 1e-3 && options.sweep_seconds <= 3600.0)) {
    refuse("sweep_seconds", options.sweep_seconds,
           "be at least 0.001 and at most 3600 where the rounds are what is measured");
  }
  if (options.kept_rounds == 0) {
    refuse("kept_rounds", std::uint32_t{0}, "be at least 1");
  }
  if (!(options.warmup_seconds >= 0.0 && options.warmup_seconds <= 3600.0)) {
    refuse("warmup_seconds", options.warmup_seconds, "be at least 0 and at most 3600");
  }
  constexpr std::uint32_t limit = 1U << 24;
  if (options.queue_items == 0 || options.queue_items > limit) {
    refuse("queue_items", options.queue_items, "lie in 1 .. " + std::to_string(limit));
  }
  if (options.window > limit) {
    refuse("window", options.window, "be at most " + std::to_string(limit));
  }
  if (options.load == LoadKind::closed && options.outstanding_per_worker == 0) {
    refuse("outstanding_per_worker", options.outstanding_per_worker,
           "be at least 1 for a closed load");
  }
  if (options.load == LoadKind::open && !(options.rate_mqs > 0.0 && options.rate_mqs <= 1e6)) {
    refuse("rate_mqs", options.rate_mqs,
           "be above 0 and at most 1000000 (million queries per second) for an open load");
  }
}

/// Of a core of this host.
std::size_t second_level_bytes() noexcept {
  constexpr std::size_t usual = std::size_t{1} << 20;
#ifdef _SC_LEVEL2_CACHE_SIZE
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (bytes > 0) return static_cast<std::size_t>(bytes);
#endif
  return usual;
}

std::map<int, int> nodes_of_cpus(const numa::Topology& topology) {
  std::map<int, int> node_of;
  for (const numa::Cpu& cpu : topology.cpus) node_of[cpu.id] = cpu.node;
  return node_of;
}

std::vector<int> choose_router(const MeasureOptions& options, const std::vector<int>& allowed,
                               const numa::Topology& topology) {
  std::vector<int> taken = options.worker_cpus;
  for (const CoTenant& co_tenant : options.co_tenants) taken.push_back(co_tenant.cpu);
  taken.insert(taken.end(), options.sweeper_cpus.begin(), options.sweeper_cpus.end());
  const int free = choose_free_cpu(allowed, taken, topology);
  return {free < 0 ? options.worker_cpus.back() : free};
}

std::vector<Role> roles_of(const Plan& plan) {
  std::vector<Role> roles;
  const auto add = [&](Role::Kind kind, std::string name, int cpu) {
    roles.push_back({kind, std::move(name), cpu});
  };
  const auto numbered = [](const char* kind, std::size_t i) {
    return std::string(kind) + " " + std::to_string(i);
  };
  for (std::size_t i = 0; i < plan.workers(); ++i) {
    add(Role::Kind::worker, numbered("worker", i), plan.options.worker_cpus[i]);
  }
  for (std::size_t i = 0; i < plan.routers(); ++i) {
    add(Role::Kind::router, numbered("router", i), plan.router_cpus[i]);
  }
  const bool sweeps = plan.options.sweep_seconds > 0.0;
  for (std::size_t i = 0; sweeps && i < plan.nodes.size(); ++i) {
    add(Role::Kind::sweeper, "sweeper of node " + std::to_string(plan.nodes[i]),
        plan.sweepers.of_node[i]);
  }
  if (sweeps) add(Role::Kind::sweeper, "sweeper off the cores", plan.sweepers.offcore);
  if (sweeps || plan.enforces()) add(Role::Kind::stitcher, "stitcher", plan.sweepers.stitcher);
  return roles;
}

/// Which roles share a CPU.
void assign_routers(Plan& plan) {
  const std::vector<int>& worker_cpus = plan.options.worker_cpus;
  std::map<int, int> roles_on;
  for (const int cpu : worker_cpus) ++roles_on[cpu];
  for (const int cpu : plan.router_cpus) ++roles_on[cpu];
  plan.hosted_routers.resize(worker_cpus.size());
  for (std::size_t router = 0; router < plan.routers(); ++router) {
    const int cpu = plan.router_cpus[router];
    plan.roles_on_router_cpu.push_back(roles_on.at(cpu));
    const auto host = std::find(worker_cpus.begin(), worker_cpus.end(), cpu);
    if (host == worker_cpus.end()) continue;
    plan.hosted_routers[static_cast<std::size_t>(host - worker_cpus.begin())].push_back(router);
  }
  plan.roles_share_cores = std::any_of(roles_on.begin(), roles_on.end(),
                                       [](const auto& item) { return item.second > 1; });
}

void require_token_for_each(const Plan& plan) {
  const MeasureOptions& options = plan.options;
  const std::uint64_t tokens = std::uint64_t{options.outstanding_per_worker} * plan.workers();
  if (options.load != LoadKind::closed || tokens >= plan.routers()) return;
  refuse(std::to_string(plan.routers()) + " routers for " + std::to_string(tokens) +
         " queries in flight (outstanding_per_worker is " +
         std::to_string(options.outstanding_per_worker) + ", with " +
         std::to_string(plan.workers()) + (plan.workers() == 1 ? " worker" : " workers") +
         "); each router must have at least one: raise outstanding_per_worker or name fewer "
         "router_cpus");
}

}  // namespace

bool Plan::hosted(std::size_t router) const {
  return std::find(options.worker_cpus.begin(), options.worker_cpus.end(), router_cpus[router]) !=
         options.worker_cpus.end();
}

std::uint64_t Plan::tokens(std::size_t router) const noexcept {
  const std::uint64_t all = std::uint64_t{options.outstanding_per_worker} * workers();
  return all * (router + 1) / routers() - all * router / routers();
}

std::size_t Plan::queue_items() const noexcept {
  // An eighth of the cache for a worker's queues together; a batch for each in any case.
  const std::size_t each = second_level_bytes() / 8 / routers() / sizeof(Item);
  const std::size_t limit = std::max<std::size_t>(std::bit_floor(each), Worker::max_batch);
  return std::min<std::size_t>(options.queue_items, limit);
}

std::size_t Plan::waiting_room() const noexcept { return options.queue_items - queue_items(); }

bool Plan::enforces() const noexcept {
  return options.schedule.data != DataPlacement::keep || !options.changes.empty() ||
         options.until_stopped;
}

void Plan::validate(const Schedule& schedule) const {
  // Before the nodes: the kernel might not even say which there are.
  require_placement(schedule);
  const std::set<int> with_worker(options.worker_cpus.begin(), options.worker_cpus.end());
  validate_data(schedule.data);
  if (schedule.routing == Routing::core) validate_cores(schedule, slices, with_worker);
  if (needs_nodes(schedule)) validate_nodes(schedule, slices, with_worker, node_of);
}

Routes Plan::routes(const Schedule& schedule) const {
  Routes routes;
  routes.first.reserve(slices + 1);
  routes.first.push_back(0);
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    for (std::uint32_t worker = 0; worker < workers(); ++worker) {
      const int cpu = options.worker_cpus[worker];
      const bool serves =
          schedule.routing == Routing::any ||
          (schedule.routing == Routing::node ? node_of.at(cpu) == schedule.nodes[slice]
                                             : cpu == schedule.cores[slice]);
      if (serves) routes.workers.push_back(worker);
    }
    routes.first.push_back(static_cast<std::uint32_t>(routes.workers.size()));
  }
  return routes;
}

Plan make_plan(const MeasureOptions& options, std::uint32_t slices) {
  const std::vector<int> allowed_list = numa::allowed_cpus();
  const std::set<int> allowed(allowed_list.begin(), allowed_list.end());
  const numa::Topology topology = numa::read_topology();
  Plan plan{options, slices, nodes_of_cpus(topology), {}, {}, {}, false, {}, {}, {}, {}, {}};
  validate_cpus(options, allowed);
  if (!(options.sweep_seconds >= 0.0)) {
    refuse("sweep_seconds", options.sweep_seconds, "be at least 0; 0 is no sweeping");
  }
  plan.validate(options.schedule);
  for (const ScheduleChange& change : options.changes) plan.validate(change.schedule);
  validate_numbers(options);
  plan.interleave_nodes = choose_interleave_nodes(options, topology);
  plan.router_cpus = options.router_cpus.empty() ? choose_router(options, allowed_list, topology)
                                                 : options.router_cpus;
  require_token_for_each(plan);
  assign_routers(plan);
  std::set<int> nodes;
  for (const int cpu : options.worker_cpus) nodes.insert(plan.node_of.at(cpu));
  plan.nodes.assign(nodes.begin(), nodes.end());
  plan.sweepers = choose_sweepers(options.sweeper_cpus, plan.nodes, plan.node_of);
  const std::vector<Role> roles = roles_of(plan);
  plan.shared_cores = find_shared_cores(roles, topology);
  plan.unbound_roles = find_unbound(roles);
  return plan;
}

}  // namespace pmoss::runtime
