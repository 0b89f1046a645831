// What bind_host() adds: one function per floor that only Linux has.
#pragma once

#include <pybind11/pybind11.h>

namespace pmoss::bindings {

void bind_scan(pybind11::module_& module);
void bind_plugins(pybind11::module_& module);
void bind_pmu(pybind11::module_& module);
void bind_runtime(pybind11::module_& module);
void bind_co_tenants(pybind11::module_& module);
void bind_live_threads(pybind11::module_& module);

}  // namespace pmoss::bindings
