#include "environment/running.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/model_types.hpp"
#include "bindings/modelled_index.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using analytic::Model;
using environment::Conditions;
using environment::Epoch;

/// An array that shows a vector of the index, which lives on with it.
template <typename T>
py::array_t<T> shown(const py::object& self, std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data(), self);
}

}  // namespace

py::dict of_epoch(const Epoch& epoch) {
  py::list pieces;
  for (const auto& piece : epoch.pieces) {
    pieces.append(py::make_tuple(piece.seconds, piece.throughput));
  }
  py::dict result;
  result["served"] = epoch.queries;
  result["within"] = epoch.within;
  result["moved_bytes"] = epoch.moved_bytes;
  result["pieces"] = py::tuple(pieces);
  result["snapshot"] = to_dict(epoch.snapshot, &ComputedCounter::analytic);
  return result;
}

void bind_running(py::module_& module) {
  py::class_<Conditions>(module, "Conditions", "What an epoch is like, beside the schedule.")
      .def(py::init([](const Interference& interference, int shift, double load, int mix) {
             return Conditions{interference, {shift, load, mix}};
           }),
           py::arg("interference"), py::arg("shift") = 0, py::arg("load") = 1.0,
           py::arg("mix") = 0);
  py::class_<ModelledIndex, std::shared_ptr<ModelledIndex>>(
      module, "RunningIndex", "An index that runs on the analytic model, epoch after epoch.")
      .def(py::init<const Machine&, std::shared_ptr<SharedModel>, std::vector<double>, double>(),
           py::arg("machine"), py::arg("model"), py::arg("slice_bytes"),
           py::arg("most_gb_per_s") = 0.0)
      .def(
          "begin",
          [](ModelledIndex& self, std::vector<analytic::SliceProfiles> mixes,
             const Conditions& conditions, const Places& cores) {
            const auto places = view(cores);
            self.model->with([&](Model& model) {
              self.running.begin(model, std::move(mixes), conditions, places);
            });
          },
          py::arg("mixes"), py::arg("conditions"), py::arg("cores").noconvert())
      .def(
          "begin_again",
          [](ModelledIndex& self, const Conditions& conditions, const Places& cores) {
            const auto places = view(cores);
            self.model->with(
                [&](Model& model) { self.running.begin_again(model, conditions, places); });
          },
          py::arg("conditions"), py::arg("cores").noconvert())
      .def(
          "move",
          [](ModelledIndex& self, int slice, int core) {
            self.model->with([&](Model&) { self.running.move(slice, core); });
          },
          py::arg("slice"), py::arg("core"))
      .def(
          "run",
          [](ModelledIndex& self, const Conditions& conditions, double seconds, double limit_us) {
            return of_epoch(self.model->with([&](Model& model) {
              return self.running.run(model, conditions, seconds, limit_us);
            }));
          },
          py::arg("conditions"), py::arg("seconds"), py::arg("limit_us") = 0.0)
      .def_property_readonly("cores",
                             [](const py::object& self) {
                               return shown(self, self.cast<ModelledIndex&>().running.cores());
                             })
      .def_property_readonly("nodes",
                             [](const py::object& self) {
                               return shown(self, self.cast<ModelledIndex&>().running.nodes());
                             })
      .def_property_readonly("pending",
                             [](const py::object& self) {
                               return shown(self, self.cast<ModelledIndex&>().running.pending());
                             })
      .def_property_readonly("shift",
                             [](const ModelledIndex& self) { return self.running.shift(); })
      .def_property_readonly("copies",
                             [](const ModelledIndex& self) { return self.running.copies(); });
}

}  // namespace pmoss::bindings
