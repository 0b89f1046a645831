#include "bindings/model_types.hpp"

#include <stdexcept>
#include <utility>

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

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

}  // namespace

std::span<const std::int32_t> view(const Places& places) {
  if (places.ndim() != 1) throw std::invalid_argument("a schedule is a one-dimensional array");
  return {places.data(), static_cast<std::size_t>(places.size())};
}

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

}  // namespace pmoss::bindings
