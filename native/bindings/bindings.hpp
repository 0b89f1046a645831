// One function per floor adds that floor's classes to the Python module.
#pragma once

#include <pybind11/pybind11.h>

namespace pmoss::bindings {

void bind_workload(pybind11::module_& module);
void bind_machine(pybind11::module_& module);
void bind_kinds(pybind11::module_& module);
void bind_recording(pybind11::module_& module);
void bind_scan_paths(pybind11::module_& module);
void bind_simulator(pybind11::module_& module);
void bind_analytic(pybind11::module_& module);
void bind_environment(pybind11::module_& module);
void bind_balancing(pybind11::module_& module);
void bind_running(pybind11::module_& module);
void bind_epochs(pybind11::module_& module);
void bind_threads(pybind11::module_& module);

/// What looks at this host, measures it or changes it; nothing in a portable build.
void bind_host(pybind11::module_& module);

}  // namespace pmoss::bindings
