#include "machine/machine.hpp"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <string>
#include <tuple>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/names.hpp"
#include "machine/interference.hpp"
#include "numa/available_memory.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

Interference interference_of(const std::vector<std::tuple<std::string, int, double>>& co_tenants,
                             const Machine& machine) {
  using Kind = Neighbour::Kind;
  std::vector<Neighbour> neighbours;
  neighbours.reserve(co_tenants.size());
  for (const auto& [family, target, strength] : co_tenants) {
    neighbours.push_back({named<Kind, 5>("co-tenant", family,
                                         {{{"busy_core", Kind::busy_core},
                                           {"busy_sibling", Kind::busy_sibling},
                                           {"cache_thrash", Kind::cache_thrash},
                                           {"memory_stream", Kind::memory_stream},
                                           {"link_stream", Kind::link_stream}}}),
                          target, strength});
  }
  return taken_by(neighbours, machine);
}

}  // namespace

void bind_machine(py::module_& module) {
  py::class_<LatencyCurve>(module, "LatencyCurve",
                           "Loaded / idle latency = 1 + a u + b u^c / (1.02 - u).")
      .def(py::init<double, double, double>(), py::arg("a"), py::arg("b"), py::arg("c"))
      .def_readwrite("a", &LatencyCurve::a)
      .def_readwrite("b", &LatencyCurve::b)
      .def_readwrite("c", &LatencyCurve::c);

  py::class_<Interference>(module, "Interference",
                           "The co-tenants of a machine, as the resources that they take.")
      .def(py::init<>())
      .def_static("of", &interference_of, py::arg("co_tenants"), py::arg("machine"),
                  "What co-tenants, each (family, target, strength), take of a machine.")
      .def_readwrite("busy_share", &Interference::busy_share)
      .def_readwrite("sibling_busy_share", &Interference::sibling_busy_share)
      .def_readwrite("llc_lines_per_ns", &Interference::llc_lines_per_ns)
      .def_readwrite("dram_gb_per_s", &Interference::dram_gb_per_s)
      .def_readwrite("link_gb_per_s", &Interference::link_gb_per_s);

  py::class_<Machine>(module, "MachineModel", "A machine as the models see it.")
      .def(py::init<>())
      .def("complete", &Machine::complete,
           "Fills what is left empty and checks everything; raises ValueError.")
      .def_readwrite("node_of_core", &Machine::node_of_core)
      .def_readwrite("llc_of_core", &Machine::llc_of_core)
      .def_readwrite("physical_of_core", &Machine::physical_of_core)
      .def_readwrite("is_worker", &Machine::is_worker)
      .def_readwrite("socket_of_node", &Machine::socket_of_node)
      .def_readwrite("clock_ghz", &Machine::clock_ghz)
      .def_readwrite("instructions_per_cycle", &Machine::instructions_per_cycle)
      .def_readwrite("branch_miss_cycles", &Machine::branch_miss_cycles)
      .def_readwrite("mlp_dependent", &Machine::mlp_dependent)
      .def_readwrite("mlp_streaming", &Machine::mlp_streaming)
      .def_readwrite("smt_share", &Machine::smt_share)
      .def_readwrite("l2_lines", &Machine::l2_lines)
      .def_readwrite("l2_ways", &Machine::l2_ways)
      .def_readwrite("l2_ns", &Machine::l2_ns)
      .def_readwrite("llc_lines", &Machine::llc_lines)
      .def_readwrite("llc_ways", &Machine::llc_ways)
      .def_readwrite("llc_ns", &Machine::llc_ns)
      .def_readwrite("llc_inclusive", &Machine::llc_inclusive)
      .def_readwrite("llc_at_home_cluster", &Machine::llc_at_home_cluster)
      .def_readwrite("modified_ns", &Machine::modified_ns)
      .def_readwrite("modified_home_reader_ns", &Machine::modified_home_reader_ns)
      .def_readwrite("mesh_ns", &Machine::mesh_ns)
      .def_readwrite("mesh_modified_ns", &Machine::mesh_modified_ns)
      .def_readwrite("dram_ns", &Machine::dram_ns)
      .def_readwrite("dram_gb_per_s", &Machine::dram_gb_per_s)
      .def_readwrite("dram_write_gb_per_s", &Machine::dram_write_gb_per_s)
      .def_readwrite("dram_curve", &Machine::dram_curve)
      .def_readwrite("link_gb_per_s", &Machine::link_gb_per_s)
      .def_readwrite("next_socket", &Machine::next_socket)
      .def_readwrite("link_curve", &Machine::link_curve)
      .def_readwrite("dtlb_pages", &Machine::dtlb_pages)
      .def_readwrite("tlb_pages", &Machine::tlb_pages)
      .def_readwrite("tlb_ns", &Machine::tlb_ns)
      .def_readwrite("page_walk_ns", &Machine::page_walk_ns)
      .def_readwrite("page_bytes", &Machine::page_bytes)
      .def_readwrite("query_overhead_cycles", &Machine::query_overhead_cycles)
      .def_readwrite("dispatch_ns", &Machine::dispatch_ns)
      .def_readwrite("routers", &Machine::routers);

  module.def("available_memory", &numa::available_memory, py::arg("root") = "/",
             "Bytes that this process may still take; the largest number if nothing is known.");
}

}  // namespace pmoss::bindings
