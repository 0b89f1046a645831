#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>

#include "bindings/bindings.hpp"
#include "simulator/record.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using simulator::Trace;
using simulator::TracedQuery;
using simulator::TraceOptions;

double mean(const Trace& trace, std::uint16_t TracedQuery::* count) {
  double sum = 0.0;
  for (std::size_t i = 0; i < trace.size(); ++i) sum += trace.queries[i].*count;
  return sum / static_cast<double>(trace.size());
}

py::array_t<double> shares(const Trace& trace) {
  py::array_t<double> result(static_cast<py::ssize_t>(trace.slices));
  double* const share = result.mutable_data();
  std::fill(share, share + trace.slices, 0.0);
  for (std::size_t i = 0; i < trace.size(); ++i) share[trace.queries[i].slice] += 1.0;
  for (std::uint32_t s = 0; s < trace.slices; ++s) share[s] /= static_cast<double>(trace.size());
  return result;
}

}  // namespace

void bind_simulator(py::module_& module) {
  py::class_<Trace, std::shared_ptr<Trace>>(
      module, "Trace", "What an index touched while it served a stream of queries.")
      .def_property_readonly("size", &Trace::size, "Number of queries.")
      .def_property_readonly("slices", [](const Trace& trace) { return trace.slices; })
      .def_property_readonly("line_sampling",
                             [](const Trace& trace) { return trace.line_sampling; })
      .def_property_readonly("page_sampling",
                             [](const Trace& trace) { return trace.page_sampling; })
      .def_property_readonly("lines", &Trace::lines, "Number of different lines recorded.")
      .def_property_readonly("pages", &Trace::pages, "Number of different pages recorded.")
      .def_property_readonly(
          "touches", [](const Trace& trace) { return trace.touches.size(); },
          "Number of touches recorded.")
      .def_property_readonly(
          "mean_dependent", [](const Trace& trace) { return mean(trace, &TracedQuery::dependent); },
          "Lines per query that were waited for, of all lines.")
      .def_property_readonly(
          "mean_streaming", [](const Trace& trace) { return mean(trace, &TracedQuery::streaming); },
          "Lines per query that were fetched ahead or beside others, of all lines.")
      .def_property_readonly("bytes_of_slice",
                             [](const Trace& trace) {
                               return py::array_t<std::uint64_t>(
                                   static_cast<py::ssize_t>(trace.slices),
                                   trace.bytes_of_slice.data());
                             })
      .def("shares", &shares, "Share of the queries that the core of each slice runs.");

  const TraceOptions standard;
  module.def(
      "record_btree",
      [](const WorkloadSpec& workload, std::uint32_t slices, std::uint64_t queries,
         std::uint32_t line_sampling, std::uint32_t page_sampling, std::uint64_t seed) {
        const TraceOptions options{queries, line_sampling, page_sampling, seed};
        const py::gil_scoped_release release;
        // Python has no const; nothing here changes a trace.
        return std::const_pointer_cast<Trace>(simulator::record_btree(workload, slices, options));
      },
      py::arg("workload"), py::arg("slices"), py::kw_only(), py::arg("queries") = standard.queries,
      py::arg("line_sampling") = standard.line_sampling,
      py::arg("page_sampling") = standard.page_sampling, py::arg("seed") = standard.seed,
      "Builds the B+-tree of the workload's instance, runs queries on it and tells what they "
      "touched.");
}

}  // namespace pmoss::bindings
