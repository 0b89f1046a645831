#include "bindings/bindings.hpp"
#include "bindings/index_classes.hpp"

PYBIND11_MODULE(_native, module) {
  module.doc() = "The native core of pmoss_env: index, workloads, model and runner.";
  pmoss::bindings::bind_workload(module);
  pmoss::bindings::bind_machine(module);
  for (const auto& index_class : pmoss::bindings::index_classes()) index_class.bind(module);
  pmoss::bindings::bind_scan(module);
  pmoss::bindings::bind_simulator(module);
  pmoss::bindings::bind_scan_paths(module);
  pmoss::bindings::bind_analytic(module);
  pmoss::bindings::bind_kinds(module);
  pmoss::bindings::bind_environment(module);
  pmoss::bindings::bind_running(module);
  pmoss::bindings::bind_epochs(module);
  pmoss::bindings::bind_pmu(module);
  pmoss::bindings::bind_runtime(module);
  pmoss::bindings::bind_co_tenants(module);
  pmoss::bindings::bind_threads(module);
}
