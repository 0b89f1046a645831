// Co-tenants that run by themselves.
#include "bindings/co_tenants.hpp"

#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/host_bindings.hpp"
#include "bindings/names.hpp"
#include "environment/forks.hpp"
#include "runtime/co_tenant_crew.hpp"

namespace py = pybind11;

namespace pmoss::bindings {

using runtime::CoTenant;

CoTenant co_tenant_of(const CoTenantFields& fields) {
  const auto& [kind, cpu, strength, bytes, node] = fields;
  return {named<CoTenant::Kind, 3>("co_tenant", kind,
                                   {{{"spin", CoTenant::Kind::spin},
                                     {"cache_thrash", CoTenant::Kind::cache_thrash},
                                     {"memory_stream", CoTenant::Kind::memory_stream}}}),
          cpu, strength, bytes, node};
}

namespace {

/// They belong to the process that started them.
class CoTenants {
 public:
  explicit CoTenants(const std::vector<CoTenantFields>& rows) {
    std::vector<CoTenant> co_tenants;
    for (const CoTenantFields& fields : rows) {
      const double strength = std::get<double>(fields);
      if (!(strength > 0.0 && strength < 1.0)) {
        throw std::invalid_argument("strength is " + std::to_string(strength) +
                                    "; it must lie between 0 and 1");
      }
      co_tenants.push_back(co_tenant_of(fields));
    }
    const py::gil_scoped_release release;
    crew_ = std::make_unique<runtime::CoTenantCrew>(std::move(co_tenants), [] {
      const py::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      return false;
    });
  }
  CoTenants(const CoTenants&) = delete;
  CoTenants& operator=(const CoTenants&) = delete;
  ~CoTenants() { stop(); }

  void stop() {
    if (environment::forks() != forks_) {
      static_cast<void>(crew_.release());  // there are no threads to join
      return;
    }
    const py::gil_scoped_release release;
    crew_.reset();
  }

 private:
  const std::uint32_t forks_ = environment::forks();
  std::unique_ptr<runtime::CoTenantCrew> crew_;
};

}  // namespace

void bind_co_tenants(py::module_& module) {
  py::class_<CoTenants>(module, "CoTenants",
                        "Threads that take processor time or memory bandwidth, until stop().")
      .def(py::init<const std::vector<CoTenantFields>&>(), py::arg("co_tenants"),
           "Each (spin, cache_thrash or memory_stream; CPU; strength; bytes; node or -1), as of "
           "Runner.start(). Returns once all of them work; RunnerError is raised for one that "
           "cannot.")
      .def("stop", &CoTenants::stop, "Ends them. Safe to repeat.");
}

}  // namespace pmoss::bindings
