#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>

#include "analytic/exhaustive.hpp"
#include "bindings/bindings.hpp"
#include "bindings/shared_model.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using analytic::Model;

// No cast: a core that does not fit 32 bits must not become another core.
using Places = py::array_t<std::int32_t, py::array::c_style>;

std::span<const std::int32_t> view(const Places& places) {
  if (places.ndim() != 1) throw std::invalid_argument("a schedule is a one-dimensional array");
  return {places.data(), static_cast<std::size_t>(places.size())};
}

template <typename T>
py::array_t<T> to_array(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

// The rates that the model fills, by their name in the counter vocabulary (pmoss_env/types.py).
constexpr std::pair<const char*, double SliceRates::*> slice_rates[] = {
    {"queries", &SliceRates::throughput},
    {"cycles", &SliceRates::cycles},
    {"instructions", &SliceRates::instructions},
    {"l1d_misses", &SliceRates::l1d_misses},
    {"llc_misses", &SliceRates::llc_misses},
    {"branch_misses", &SliceRates::branch_misses},
    {"memory_misses", &SliceRates::memory_misses},
    {"dtlb_misses", &SliceRates::dtlb_misses},
    {"memory_accesses", &SliceRates::memory_accesses},
    {"llc_write_misses", &SliceRates::llc_write_misses},
    {"memory_write_misses", &SliceRates::memory_write_misses},
    {"local_dram", &SliceRates::local_dram},
    {"remote_dram", &SliceRates::remote_dram},
    {"cycles_l3_miss", &SliceRates::cycles_l3_miss},
    {"cycles_mem_any", &SliceRates::cycles_mem_any},
    {"task_clock_us", &SliceRates::task_clock_us},
    {"elapsed_us", &SliceRates::elapsed_us},
    {"context_switches", &SliceRates::context_switches},
};

py::dict to_dict(const Snapshot& s) {
  py::dict counters;
  for (const auto& [name, field] : slice_rates) {
    py::array_t<double> column(static_cast<py::ssize_t>(s.slices.size()));
    auto out = column.mutable_unchecked<1>();
    for (std::size_t i = 0; i < s.slices.size(); ++i) {
      out(static_cast<py::ssize_t>(i)) = s.slices[i].*field;
    }
    counters[name] = column;
  }
  py::dict result;
  result["throughput"] = s.throughput;
  result["counters"] = counters;
  result["read_gb_per_s"] = to_array(s.read_gb_per_s);
  result["write_gb_per_s"] = to_array(s.write_gb_per_s);
  result["link_gb_per_s"] = to_array(s.link_gb_per_s);
  result["latency_p50_us"] = s.latency_p50_us;
  result["latency_p99_us"] = s.latency_p99_us;
  return result;
}

Load make_load(const std::string& kind, int outstanding_per_worker, double offered_mq_per_s) {
  Load load;
  load.outstanding_per_worker = outstanding_per_worker;
  load.offered_mq_per_s = offered_mq_per_s;
  if (kind == "closed") {
    load.kind = Load::Kind::closed;
  } else if (kind == "saturated") {
    load.kind = Load::Kind::saturated;
  } else if (kind == "open") {
    load.kind = Load::Kind::open;
  } else {
    throw std::invalid_argument("load '" + kind + "': must be closed, saturated or open");
  }
  return load;
}

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
