#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>

#include "analytic/exhaustive.hpp"
#include "analytic/trace_profile.hpp"
#include "bindings/bindings.hpp"
#include "bindings/model_types.hpp"
#include "bindings/names.hpp"
#include "bindings/shared_model.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using analytic::Model;

void bind_profiles(py::module_& module) {
  py::class_<analytic::SliceProfiles>(module, "SliceProfiles",
                                      "What the queries of each slice touch.")
      .def_property_readonly(
          "share", [](const analytic::SliceProfiles& profiles) { return to_array(profiles.share); },
          "(slices,) probability that a query is one of each slice.");

  module.def("profile_trace", &analytic::profile_trace, py::arg("trace"),
             py::call_guard<py::gil_scoped_release>(),
             "The profiles of what a trace recorded, of whatever index and workload.");
}

}  // namespace

void bind_analytic(py::module_& module) {
  bind_profiles(module);
  py::class_<SharedModel, std::shared_ptr<SharedModel>>(
      module, "AnalyticModel", "The analytic model of one machine and load regime.")
      .def(py::init([](const Machine& machine, const std::string& load, int outstanding_per_worker,
                       double offered_mq_per_s, bool dispatched, bool numa_balancing) {
             return std::make_shared<SharedModel>(
                 machine, make_load(load, outstanding_per_worker, offered_mq_per_s),
                 analytic::ModelOptions{dispatched, numa_balancing});
           }),
           py::arg("machine"), py::kw_only(), py::arg("load") = "closed",
           py::arg("outstanding_per_worker") = 32, py::arg("offered_mq_per_s") = 0.0,
           py::arg("dispatched") = false, py::arg("numa_balancing") = false)
      .def("set_machine", &SharedModel::set_machine, py::arg("machine"),
           "Another machine under the same load; the instance has to be set anew.")
      .def(
          "set_instance",
          [](SharedModel& shared, const analytic::SliceProfiles& profiles,
             const Interference& interference) {
            shared.with([&](Model& model) { model.set_instance(profiles, interference); });
          },
          py::arg("profiles"), py::arg("interference"))
      .def(
          "set_co_tenants",
          [](SharedModel& shared, const Interference& interference) {
            shared.with([&](Model& model) { model.set_co_tenants(interference); });
          },
          py::arg("interference"), "Other co-tenants of the same instance; forgets the schedule.")
      .def(
          "offer",
          [](SharedModel& shared, double share) {
            shared.with([share](Model& model) { model.offer(share); });
          },
          py::arg("share"), "Another share of an open load arrives; place() comes next.")
      .def(
          "set_interference",
          [](SharedModel& shared, const Interference& interference) {
            return shared.with([&](Model& model) { return model.set_interference(interference); });
          },
          py::arg("interference"))
      .def(
          "change",
          [](SharedModel& shared, const Interference& interference, const Places& slices,
             const Places& cores, const Places& nodes) {
            const analytic::SlicePlaces places{view(slices), view(cores), view(nodes)};
            return shared.with([&](Model& model) { return model.change(interference, places); });
          },
          py::arg("interference"), py::arg("slices").noconvert(), py::arg("cores").noconvert(),
          py::arg("nodes").noconvert())
      .def(
          "place",
          [](SharedModel& shared, const Places& cores, const Places& nodes,
             const std::string& routing, const std::string& data) {
            const Placement placement{view(cores), view(nodes), routing_named(routing),
                                      modelled_data_named(data)};
            return shared.with([&](Model& model) { return model.place(placement); });
          },
          py::arg("cores").noconvert(), py::arg("nodes").noconvert(), py::arg("routing") = "core",
          py::arg("data") = "slice")
      .def(
          "move",
          [](SharedModel& shared, int slice, int core, int node) {
            return shared.with([&](Model& model) { return model.move(slice, core, node); });
          },
          py::arg("slice"), py::arg("core"), py::arg("node"))
      .def(
          "marginal",
          [](SharedModel& shared, int slice) {
            return to_array(shared.with([&](Model& model) { return model.marginal(slice); }));
          },
          py::arg("slice"))
      .def_property_readonly(
          "throughput",
          [](SharedModel& shared) { return shared.with([](Model& m) { return m.throughput(); }); })
      .def(
          "slice_throughput",
          [](SharedModel& shared) {
            return to_array(shared.with([](Model& model) { return model.slice_throughput(); }));
          },
          "(slices,) float64: million queries per second of each, as in snapshot().")
      .def("snapshot",
           [](SharedModel& shared) {
             return to_dict(shared.with([](Model& model) { return model.snapshot(); }),
                            &ComputedCounter::analytic);
           })
      .def(
          "share_within",
          [](SharedModel& shared, double limit_us) {
            return shared.with([&](Model& model) { return model.share_within(limit_us); });
          },
          py::arg("limit_us"))
      .def(
          "best_by_enumeration",
          [](SharedModel& shared, std::uint64_t limit) {
            const analytic::Optimum best = shared.with(
                [&](Model& model) { return analytic::best_by_enumeration(model, limit); });
            return py::make_tuple(to_array(best.cores), best.throughput, best.evaluated);
          },
          py::arg("limit"));
}

}  // namespace pmoss::bindings
