#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/model_types.hpp"
#include "bindings/names.hpp"
#include "environment/forks.hpp"
#include "recording/micro_trace.hpp"
#include "simulator/server.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using recording::Trace;
using recording::TracedQuery;

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

// Runs change the server's state, so that Python threads take turns. The lock is taken without the
// GIL and given back before it, or two threads could wait for each other.
struct SharedServer {
  simulator::Server server;
  environment::ForkAwareMutex mutex;

  template <typename Work>
  auto with(Work work) {
    const py::gil_scoped_release release;
    const std::scoped_lock lock(mutex);
    return work(server);
  }
};

simulator::ServerOptions::Dispatch dispatch_named(const std::string& name) {
  if (name == "ideal") return simulator::ServerOptions::Dispatch::ideal;
  if (name == "modelled") return simulator::ServerOptions::Dispatch::modelled;
  throw std::invalid_argument("dispatch '" + name + "': must be ideal or modelled");
}

using GivenMove = std::tuple<std::int32_t, std::int32_t, double>;

py::dict migrate(SharedServer& shared, const Places& cores, const Places& nodes,
                 const std::vector<GivenMove>& given, double most_gb_per_s, std::uint64_t seed) {
  const Placement placement{view(cores), view(nodes)};
  std::vector<simulator::Move> moves;
  for (const auto& [slice, core, bytes] : given) moves.push_back({slice, core, bytes});
  const simulator::Migration migration = shared.with([&](simulator::Server& server) {
    return server.migrate(placement, moves, most_gb_per_s, seed);
  });
  py::list pieces;
  for (const auto& piece : migration.pieces) {
    pieces.append(py::make_tuple(piece.seconds, piece.throughput));
  }
  py::dict result;
  result["snapshot"] = to_dict(migration.snapshot, &ComputedCounter::simulated);
  result["pieces"] = py::tuple(pieces);
  result["moved_bytes"] = migration.copied_bytes;
  result["pending"] = migration.pending;
  return result;
}

void bind_server(py::module_& module) {
  const simulator::ServerOptions standard;
  py::class_<SharedServer>(module, "SimulatedServer",
                           "A machine on which a trace is executed under a schedule.")
      .def(py::init([](const Machine& machine, const std::string& load, int outstanding_per_worker,
                       double offered_mq_per_s, double warmup_share, double epoch_us,
                       const std::string& dispatch, bool numa_balancing) {
             simulator::ServerOptions options;
             options.warmup_share = warmup_share;
             options.epoch_us = epoch_us;
             options.dispatch = dispatch_named(dispatch);
             options.numa_balancing = numa_balancing;
             return std::make_unique<SharedServer>(simulator::Server(
                 machine, make_load(load, outstanding_per_worker, offered_mq_per_s), options));
           }),
           py::arg("machine"), py::kw_only(), py::arg("load") = "closed",
           py::arg("outstanding_per_worker") = 32, py::arg("offered_mq_per_s") = 0.0,
           py::arg("warmup_share") = standard.warmup_share, py::arg("epoch_us") = standard.epoch_us,
           py::arg("dispatch") = "ideal", py::arg("numa_balancing") = standard.numa_balancing)
      .def(
          "set_instance",
          [](SharedServer& shared, const std::shared_ptr<Trace>& trace, Interference interference) {
            shared.with([&](simulator::Server& server) {
              server.set_instance(trace, std::move(interference));
            });
          },
          py::arg("trace"), py::arg("interference") = Interference{},
          "Takes a trace and the co-tenants of the machine.")
      .def(
          "run",
          [](SharedServer& shared, const Places& cores, const Places& nodes,
             const std::string& routing, const std::string& data, std::uint64_t seed) {
            const Placement placement{view(cores), view(nodes), routing_named(routing),
                                      modelled_data_named(data)};
            return to_dict(
                shared.with([&](simulator::Server& server) { return server.run(placement, seed); }),
                &ComputedCounter::simulated);
          },
          py::arg("cores").noconvert(), py::arg("nodes").noconvert(), py::arg("routing") = "core",
          py::arg("data") = "slice", py::arg("seed") = 0,
          "Executes the trace once; the result depends on the arguments alone.")
      .def("migrate", &migrate, py::arg("cores").noconvert(), py::arg("nodes").noconvert(),
           py::arg("moves"), py::arg("most_gb_per_s") = 0.0, py::arg("seed") = 0,
           "The same, with slices that move when the warm-up ends.");
}

void bind_micro_traces(py::module_& module) {
  const auto released = py::call_guard<py::gil_scoped_release>();
  module.def(
      "pointer_chase", &recording::pointer_chase, py::arg("slices"), py::arg("lines_per_slice"),
      py::arg("queries"), released,
      "Queries of one dependent touch each, over the shuffled lines of their slice. Time per "
      "query = latency / mlp_dependent.");
  module.def("streaming", &recording::streaming, py::arg("slices"), py::arg("lines_per_slice"),
             py::arg("lines_per_query"), py::arg("queries"), py::arg("written_share") = 0.0,
             released,
             "Queries that stream the next lines of their slice, a share of which is written.");
  module.def(
      "modified_lines", &recording::modified_lines, py::arg("lines"), py::arg("queries"), released,
      "Queries of two slices write the lines of slice 0 in turn, so that each finds its line "
      "modified by the other's core. Time per query = latency / mlp_dependent.");
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

  bind_micro_traces(module);
  bind_server(module);
}

}  // namespace pmoss::bindings
