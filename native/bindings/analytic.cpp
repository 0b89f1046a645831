#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>

#include "analytic/exhaustive.hpp"
#include "bindings/bindings.hpp"
#include "bindings/model_types.hpp"
#include "bindings/shared_model.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using analytic::Model;

}  // namespace

void bind_analytic(py::module_& module) {
  py::class_<analytic::BTreeProfiler>(module, "BTreeProfiler",
                                      "Per-slice demand of a B+-tree under a workload.")
      .def(py::init<const WorkloadSpec&, int>(), py::arg("workload"), py::arg("slices"))
      .def(
          "shares",
          [](const analytic::BTreeProfiler& profiler, std::uint64_t seed) {
            return to_array(profiler.profiles(seed).share);
          },
          py::arg("seed"), "(slices,) probability that a query starts in each slice.");

  py::class_<SharedModel, std::shared_ptr<SharedModel>>(
      module, "AnalyticModel", "The analytic model of one machine and load regime.")
      .def(py::init([](const Machine& machine, const std::string& load, int outstanding_per_worker,
                       double offered_mq_per_s) {
             return std::make_shared<SharedModel>(
                 machine, make_load(load, outstanding_per_worker, offered_mq_per_s));
           }),
           py::arg("machine"), py::kw_only(), py::arg("load") = "closed",
           py::arg("outstanding_per_worker") = 32, py::arg("offered_mq_per_s") = 0.0)
      .def(
          "set_instance",
          [](SharedModel& shared, const analytic::BTreeProfiler& profiler, std::uint64_t seed,
             const std::vector<double>& busy_share) {
            shared.with(
                [&](Model& model) { model.set_instance(profiler.profiles(seed), busy_share); });
          },
          py::arg("profiler"), py::arg("seed"), py::arg("busy_share"))
      .def(
          "place",
          [](SharedModel& shared, const Places& cores, const Places& nodes) {
            const auto c = view(cores);
            const auto n = view(nodes);
            return shared.with([&](Model& model) { return model.place(c, n); });
          },
          py::arg("cores").noconvert(), py::arg("nodes").noconvert())
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
      .def("snapshot",
           [](SharedModel& shared) {
             return to_dict(shared.with([](Model& model) { return model.snapshot(); }));
           })
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
