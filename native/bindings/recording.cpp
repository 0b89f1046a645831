// Python: recording the accesses of a library, and traces as arrays.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "kinds/driven_plugin.hpp"
#include "recording/access_trace.hpp"
#include "simulator/checks.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using recording::AccessTrace;
using recording::PlannedQueries;
using recording::Touch;
using recording::Trace;
using recording::TracedQuery;

template <typename T>
py::array_t<T> copy_of(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

template <typename T>
std::vector<T> taken(const py::dict& arrays, const char* name) {
  if (!arrays.contains(name))
    throw std::invalid_argument(std::string("the array ") + name + " is missing");
  const py::object object = arrays[name];
  if (!py::isinstance<Array<T>>(object)) {
    throw std::invalid_argument(std::string("the array ") + name + " is not of the right type");
  }
  const auto values = view(py::reinterpret_borrow<Array<T>>(object));
  return {values.begin(), values.end()};
}

/// Calls visit(name, member) for each array of the queries.
template <typename Visit>
void each_column(Visit visit) {
  visit("first_touch", &TracedQuery::first_touch);
  visit("first_page", &TracedQuery::first_page);
  visit("instructions", &TracedQuery::instructions);
  visit("branch_misses", &TracedQuery::branch_misses);
  visit("dependent", &TracedQuery::dependent);
  visit("streaming", &TracedQuery::streaming);
  visit("writes", &TracedQuery::writes);
  visit("page_changes", &TracedQuery::pages);
  visit("slice", &TracedQuery::slice);
  visit("kind", &TracedQuery::kind);
}

/// Calls visit(name, member) for each array of the lines, the pages and the slices.
template <typename Visit>
void each_list(Visit visit) {
  visit("page_touches", &Trace::page_touches);
  visit("slice_of_line", &Trace::slice_of_line);
  visit("address_page_of_line", &Trace::address_page_of_line);
  visit("slice_of_page", &Trace::slice_of_page);
  visit("address_page_of_page", &Trace::address_page_of_page);
  visit("bytes_of_slice", &Trace::bytes_of_slice);
}

/// A touch as a word: the line, and a bit each for writing, streaming and locking.
std::uint32_t word_of(Touch touch) {
  return touch.line() << 3 | (touch.writes() ? 4U : 0U) | (touch.streams() ? 2U : 0U) |
         (touch.locks() ? 1U : 0U);
}

py::dict arrays_of(const Trace& trace) {
  py::dict result;
  each_column([&]<typename T>(const char* name, T TracedQuery::* member) {
    std::vector<T> values;
    for (const TracedQuery& query : trace.queries) values.push_back(query.*member);
    result[name] = copy_of(values);
  });
  each_list([&](const char* name, auto member) { result[name] = copy_of(trace.*member); });
  std::vector<std::uint32_t> touches;
  for (const Touch touch : trace.touches) touches.push_back(word_of(touch));
  result["touches"] = copy_of(touches);
  return result;
}

void require(bool right, const char* what) {
  if (!right) throw std::invalid_argument(std::string("a damaged trace: ") + what);
}

void check_offsets(const Trace& trace) {
  for (std::size_t i = 0; i < trace.size(); ++i) {
    require(trace.queries[i].first_touch <= trace.queries[i + 1].first_touch &&
                trace.queries[i].first_page <= trace.queries[i + 1].first_page,
            "queries must follow each other");
    require(trace.queries[i].kind < 4, "a query of no kind");
    const float misses = trace.queries[i].branch_misses;
    require(misses >= 0.0F && misses <= 1e9F, "impossible branch misses");  // NaN fails, too
  }
  require(trace.queries.front().first_touch == 0 && trace.queries.front().first_page == 0 &&
              trace.queries.back().first_touch == trace.touches.size() &&
              trace.queries.back().first_page == trace.page_touches.size(),
          "the queries must have all touches");
  require(trace.slice_of_line.size() == trace.address_page_of_line.size() &&
              trace.slice_of_page.size() == trace.address_page_of_page.size() &&
              trace.bytes_of_slice.size() == trace.slices,
          "arrays of one length differ");
  for (const auto* const slices : {&trace.slice_of_line, &trace.slice_of_page}) {
    for (const std::uint16_t slice : *slices)
      require(slice < trace.slices, "there is no such slice");
  }
  for (const auto* const pages : {&trace.address_page_of_line, &trace.address_page_of_page}) {
    for (const std::uint32_t page : *pages) require(page < 1U << 31, "there is no such page");
  }
}

std::shared_ptr<Trace> trace_of(std::uint32_t slices, const py::dict& arrays) {
  auto trace = std::make_shared<Trace>();
  require(slices >= 1 && slices <= 65536, "slices must lie in 1 .. 65536");
  trace->slices = slices;
  trace->queries.resize(taken<std::uint64_t>(arrays, "first_touch").size());
  require(trace->queries.size() >= 2, "there are no queries");
  each_column([&]<typename T>(const char* name, T TracedQuery::* member) {
    const std::vector<T> values = taken<T>(arrays, name);
    require(values.size() == trace->queries.size(), "arrays of one length differ");
    for (std::size_t i = 0; i < values.size(); ++i) trace->queries[i].*member = values[i];
  });
  each_list([&]<typename T>(const char* name, std::vector<T> Trace::* member) {
    trace.get()->*member = taken<T>(arrays, name);
  });
  for (const std::uint32_t bits : taken<std::uint32_t>(arrays, "touches")) {
    trace->touches.emplace_back(bits >> 3, (bits & 4) != 0, (bits & 2) != 0, (bits & 1) != 0);
  }
  check_offsets(*trace);
  simulator::check(*trace);
  return trace;
}

}  // namespace

void bind_recording(py::module_& module) {
  py::class_<PlannedQueries>(module, "PlannedQueries", "Queries for a process that is watched.")
      .def(py::init([](const WorkloadSpec& workload, std::uint32_t slices, std::uint64_t queries,
                       std::uint64_t seed) {
             const py::gil_scoped_release release;
             return recording::plan_queries(workload, slices, {queries, 1, 1, seed});
           }),
           py::arg("workload"), py::arg("slices"), py::kw_only(), py::arg("queries"),
           py::arg("seed") = 0)
      .def_property_readonly(
          "keys", [](const PlannedQueries& planned) { return copy_of(planned.keys); },
          "(records,) uint64: the keys in the order in which they are loaded.")
      .def_property_readonly(
          "operations", [](const PlannedQueries& planned) { return copy_of(planned.queries); },
          "(3 * queries,) uint64: key, kind and length of each query.");

  py::class_<AccessTrace>(module, "AccessTrace", "Gathers the accesses that a tool prints.")
      .def(py::init<PlannedQueries>(), py::arg("planned"))
      .def("take_facts", &AccessTrace::take_facts, py::arg("facts"),
           "Takes what the watched process wrote before its first query.")
      .def(
          "feed",
          [](AccessTrace& accesses, const py::bytes& piece) {
            const std::string_view text = piece;
            const py::gil_scoped_release release;
            return accesses.feed(text);
          },
          py::arg("piece"), "Takes a piece of the list. Returns how many queries have ended.")
      .def(
          "finish",
          [](AccessTrace& accesses, const std::array<std::pair<double, double>, 4>& costs) {
            const py::gil_scoped_release release;
            std::array<OperationCost, 4> cost{};
            for (std::size_t i = 0; i < cost.size(); ++i)
              cost[i] = {costs[i].first, costs[i].second};
            return std::make_shared<Trace>(accesses.finish(cost));
          },
          py::arg("costs"),
          "The trace. `costs`: instructions and branch misses of a query of each kind.")
      .def_property_readonly("left_out", &AccessTrace::left_out,
                             "Touches per query of lines that stay in the first-level caches.");

  module.def("arrays_of_trace", &arrays_of, py::arg("trace"), "A trace as arrays by name.");
  module.def("trace_of_arrays", &trace_of, py::arg("slices"), py::arg("arrays"),
             "The trace of such arrays, all of whose lines and pages were recorded. ValueError if "
             "they are damaged.");
  module.def(
      "drive_plugin",
      [](const std::string& library, std::uint32_t slices, const std::string& keys,
         const std::string& queries, const std::string& facts, int parent, std::uint64_t counted) {
        const py::gil_scoped_release release;
        const kinds::DrivenPlugin asked{library, slices, keys, queries, facts, parent};
        if (counted == 0) kinds::drive_plugin(asked);
        kinds::count_plugin(asked, counted);
      },
      py::arg("library"), py::arg("slices"), py::kw_only(), py::arg("keys"), py::arg("queries"),
      py::arg("facts"), py::arg("parent"), py::arg("counted") = 0,
      "Loads keys into a library and serves queries, for a tool of Valgrind to watch. Ends the "
      "process, unless queries are counted.");
}

}  // namespace pmoss::bindings
