#include "bindings/bindings.hpp"

PYBIND11_MODULE(_native, module) {
  module.doc() = "The native core of pmoss_env: index, workloads, model and runner.";
  pmoss::bindings::bind_workload(module);
  pmoss::bindings::bind_machine(module);
  pmoss::bindings::bind_index(module);
  pmoss::bindings::bind_rtree(module);
  pmoss::bindings::bind_scan(module);
  pmoss::bindings::bind_simulator(module);
  pmoss::bindings::bind_scan_paths(module);
  pmoss::bindings::bind_analytic(module);
  pmoss::bindings::bind_environment(module);
  pmoss::bindings::bind_pmu(module);
  pmoss::bindings::bind_runtime(module);
  pmoss::bindings::bind_threads(module);
}
