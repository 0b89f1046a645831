// Python: the registry of the kinds of index.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "bindings/bindings.hpp"
#include "bindings/named_profiler.hpp"
#include "kinds/index_kind.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using kinds::IndexKind;
using recording::Trace;
using recording::TraceOptions;

const char* name_of(kinds::Records records) {
  return records == kinds::Records::points ? "points" : "keys";
}

}  // namespace

void bind_kinds(py::module_& module) {
  py::class_<NamedProfiler, std::shared_ptr<NamedProfiler>>(
      module, "Profiler", "Per-slice demand of an index under a workload.")
      .def(py::init([](analytic::SliceProfiles profiles) {
             return NamedProfiler{
                 [profiles = std::move(profiles)](std::uint64_t) { return profiles; }};
           }),
           py::arg("profiles"), "Of one instance, whatever the seed.")
      .def(
          "profiles",
          [](const NamedProfiler& profiler, std::uint64_t seed) {
            const py::gil_scoped_release release;
            return profiler.profiles(seed);
          },
          py::arg("seed"), "The profiles of the instance of a seed.");

  const TraceOptions standard;
  py::class_<IndexKind>(module, "IndexKind", "A kind of index.")
      .def_readonly("name", &IndexKind::name, "Its name in options, datasets and results.")
      .def_readonly("title", &IndexKind::title, "Its name in messages.")
      .def_property_readonly(
          "records", [](const IndexKind& kind) { return name_of(kind.records); },
          "\"keys\" (slices are key ranges) or \"points\" in the plane, the same in all instances "
          "(slices are the cells of a grid).")
      .def_readonly("usual_workload", &IndexKind::usual_workload,
                    "The workload that it gets by default.")
      .def_readonly("profiled_by_formulas", &IndexKind::profiled_by_formulas,
                    "Whether profiles take milliseconds; else the index is built and run for them.")
      .def(
          "record",
          [](const IndexKind& kind, const WorkloadSpec& workload, std::uint32_t slices,
             std::uint64_t queries, std::uint32_t line_sampling, std::uint32_t page_sampling,
             std::uint64_t seed) {
            const py::gil_scoped_release release;
            // Python has no const; nothing here changes a trace.
            return std::const_pointer_cast<Trace>(kind.record(
                workload, slices, TraceOptions{queries, line_sampling, page_sampling, seed}));
          },
          py::arg("workload"), py::arg("slices"), py::kw_only(),
          py::arg("queries") = standard.queries, py::arg("line_sampling") = standard.line_sampling,
          py::arg("page_sampling") = standard.page_sampling, py::arg("seed") = standard.seed,
          "Builds the index of the workload's instance, runs queries on it and tells what they "
          "touched.")
      .def(
          "make_profiler",
          [](const IndexKind& kind, const WorkloadSpec& workload, std::uint32_t slices,
             std::uint64_t queries, std::uint32_t line_sampling, std::uint32_t page_sampling) {
            const py::gil_scoped_release release;
            return NamedProfiler{kind.make_profiler(
                workload, slices, TraceOptions{queries, line_sampling, page_sampling, 0})};
          },
          py::arg("workload"), py::arg("slices"), py::kw_only(),
          py::arg("queries") = standard.queries, py::arg("line_sampling") = standard.line_sampling,
          py::arg("page_sampling") = standard.page_sampling,
          "The profiler of a workload. The options are those of a recording, if it needs one.")
      .def("__repr__", [](const IndexKind& kind) { return "IndexKind('" + kind.name + "')"; });

  module.def("index_kinds", &kinds::all_kinds, py::return_value_policy::reference,
             "All kinds of index, by name in alphabetical order.");
}

}  // namespace pmoss::bindings
