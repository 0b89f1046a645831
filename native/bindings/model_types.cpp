#include "bindings/model_types.hpp"

#include <stdexcept>
#include <string>

namespace py = pybind11;

namespace pmoss::bindings {

std::span<const std::int32_t> view(const Places& places) {
  if (places.ndim() != 1) throw std::invalid_argument("a schedule is a one-dimensional array");
  return {places.data(), static_cast<std::size_t>(places.size())};
}

py::dict to_dict(const Snapshot& s, bool ComputedCounter::* model) {
  py::dict counters;
  for (const ComputedCounter& counter : computed_counters) {
    if (!(counter.*model)) continue;
    py::array_t<double> column(static_cast<py::ssize_t>(s.slices.size()));
    auto out = column.mutable_unchecked<1>();
    for (std::size_t i = 0; i < s.slices.size(); ++i) {
      out(static_cast<py::ssize_t>(i)) = s.slices[i].*counter.rate;
    }
    counters[py::str(std::string(counter.name))] = column;
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
  } else if (kind == "saturated:mix") {
    load.kind = Load::Kind::saturated;
    load.counts_mix = true;
  } else if (kind == "open") {
    load.kind = Load::Kind::open;
  } else {
    throw std::invalid_argument("load '" + kind +
                                "': must be closed, saturated, saturated:mix or open");
  }
  return load;
}

}  // namespace pmoss::bindings
