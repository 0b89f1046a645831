#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/index_classes.hpp"
#include "counters/rates.hpp"

namespace py = pybind11;

namespace {

std::vector<std::string> names_in(const py::module_& module) {
  std::vector<std::string> names;
  for (const auto& [name, value] : py::cast<py::dict>(module.attr("__dict__"))) {
    names.push_back(py::cast<std::string>(name));
  }
  return names;
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  module.doc() = "The native core of pmoss_env: index, workloads, model and runner.";
  py::tuple counters(pmoss::counter_names.size());
  for (std::size_t i = 0; i < pmoss::counter_names.size(); ++i) {
    counters[i] = py::str(std::string(pmoss::counter_names[i]));
  }
  module.attr("COUNTERS") = counters;
  pmoss::bindings::bind_workload(module);
  pmoss::bindings::bind_machine(module);
  for (const auto bind_index_class : pmoss::bindings::index_classes()) bind_index_class(module);
  pmoss::bindings::bind_simulator(module);
  pmoss::bindings::bind_scan_paths(module);
  pmoss::bindings::bind_analytic(module);
  pmoss::bindings::bind_kinds(module);
  pmoss::bindings::bind_environment(module);
  pmoss::bindings::bind_balancing(module);
  pmoss::bindings::bind_running(module);
  pmoss::bindings::bind_epochs(module);
  pmoss::bindings::bind_threads(module);
  // A dictionary keeps its order: what the host's part adds stands behind the rest.
  const std::size_t everywhere = names_in(module).size();
  pmoss::bindings::bind_host(module);
  const std::vector<std::string> names = names_in(module);
  module.attr("HOST_NAMES") = py::tuple(
      py::cast(std::vector(names.begin() + static_cast<std::ptrdiff_t>(everywhere), names.end())));
}
