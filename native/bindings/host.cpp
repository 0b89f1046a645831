#include "bindings/bindings.hpp"
#include "bindings/host_bindings.hpp"

namespace pmoss::bindings {

void bind_host(pybind11::module_& module) {
  bind_scan(module);
  bind_plugins(module);
  bind_recording(module);
  bind_pmu(module);
  bind_runtime(module);
  bind_co_tenants(module);
  bind_live_threads(module);
}

}  // namespace pmoss::bindings
