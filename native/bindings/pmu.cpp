// Host topology, host facts and the availability of counters.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "bindings/events.hpp"
#include "bindings/host_bindings.hpp"
#include "numa/affinity.hpp"
#include "numa/facts.hpp"
#include "numa/topology.hpp"
#include "pmu/counters.hpp"
#include "pmu/events.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

py::dict topology_dict(const std::string& root) {
  const numa::Topology topology = numa::read_topology(root);
  py::list cpus;
  for (const numa::Cpu& cpu : topology.cpus) {
    py::dict entry;
    entry["id"] = cpu.id;
    entry["node"] = cpu.node;
    entry["package"] = cpu.package;
    entry["core"] = cpu.core;
    entry["llc"] = cpu.llc;
    entry["siblings"] = cpu.siblings;
    cpus.append(std::move(entry));
  }
  py::list nodes;
  for (const numa::Node& node : topology.nodes) {
    py::dict entry;
    entry["id"] = node.id;
    entry["memory_bytes"] = node.memory_bytes;
    entry["cpus"] = node.cpus;
    entry["distances"] = node.distances;
    nodes.append(std::move(entry));
  }
  py::list llcs;
  for (const numa::LastLevelCache& llc : topology.llcs) {
    py::dict entry;
    entry["level"] = llc.level;
    entry["size_bytes"] = llc.size_bytes;
    entry["cpus"] = llc.cpus;
    llcs.append(std::move(entry));
  }
  py::dict result;
  result["cpus"] = std::move(cpus);
  result["nodes"] = std::move(nodes);
  result["llcs"] = std::move(llcs);
  result["allowed_cpus"] = numa::allowed_cpus();
  return result;
}

py::dict facts_dict(const std::string& root) {
  const numa::HostFacts facts = numa::read_facts(root);
  py::dict result;
  result["cpu_model"] = facts.cpu_model;
  result["cpu_vendor"] = facts.cpu_vendor;
  result["kernel"] = facts.kernel;
  result["architecture"] = facts.architecture;
  result["numa_balancing"] = facts.numa_balancing;
  result["transparent_hugepages"] = facts.transparent_hugepages;
  result["perf_event_paranoid"] = facts.perf_event_paranoid;
  result["governor"] = facts.governor;
  result["hypervisor"] = facts.hypervisor;
  result["cpu_limit"] = facts.cpu_limit;
  return result;
}

}  // namespace

py::list events_list(const std::vector<pmu::Availability>& events) {
  py::list result;
  for (const pmu::Availability& event : events) {
    py::dict entry;
    entry["name"] = py::str(std::string(pmu::name_of(event.event)));
    const pmu::EventDescription& description = pmu::description_of(event.event);
    entry["unit"] = py::str(std::string(description.unit));
    entry["counter"] = py::str(std::string(description.counter));
    entry["scale"] = description.scale;
    entry["source"] = py::str(std::string(pmu::name_of(event.source)));
    entry["user_only"] = event.user_only;
    entry["errno"] = event.error_number;
    entry["reason"] = event.reason;
    result.append(std::move(entry));
  }
  return result;
}

void bind_pmu(py::module_& module) {
  module.def(
      "probe_events",
      [] {
        pmu::ThreadCounters counters(pmu::probe(), {});
        // An event that opens need not run.
        counters.check_running();
        return events_list(counters.availability());
      },
      "Every event that the kernel counts, in the order of the counter columns: name, unit, the "
      "counter that it is and the scale to that counter's unit, source ('hardware', 'software' or "
      "'none'), user_only, errno and reason.");
  module.def("host_topology", &topology_dict, py::arg("root") = "/",
             "CPUs, NUMA nodes and last-level caches under <root>/sys, and the CPUs that this "
             "process may use (those of the running host, whatever the root).");
  module.def("host_facts", &facts_dict, py::arg("root") = "/",
             "Settings that change what a measurement means, as the kernel gives them.");
}

}  // namespace pmoss::bindings
