#include "environment/balancing.hpp"

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace pmoss::bindings {
namespace {

using environment::SliceTimes;

SliceTimes times_of(const Array<double>& times) {
  if (times.ndim() != 2 || times.shape(1) == 0) {
    throw std::invalid_argument("times: must be of slices and at least one core");
  }
  return {view(times), static_cast<std::size_t>(times.shape(1))};
}

Array<std::int64_t> place_in_order(const Array<double>& times, const Array<std::int64_t>& order,
                                   std::size_t max_per_core) {
  std::vector<std::int64_t> chosen;
  {
    const SliceTimes read = times_of(times);
    const auto in_order = view(order);
    const py::gil_scoped_release release;
    chosen = environment::place_in_order(read, in_order, max_per_core);
  }
  return Array<std::int64_t>(static_cast<py::ssize_t>(chosen.size()), chosen.data());
}

Array<std::int64_t> balance(const Array<double>& times, const Array<std::int64_t>& start,
                            std::size_t max_per_core, int changes) {
  Array<std::int64_t> chosen(start.size());
  const auto size = static_cast<std::size_t>(start.size());
  std::copy_n(start.data(), size, chosen.mutable_data());
  const SliceTimes read = times_of(times);
  const std::span<std::int64_t> written{chosen.mutable_data(), size};
  {
    const py::gil_scoped_release release;
    environment::balance(read, max_per_core, changes, written);
  }
  return chosen;
}

}  // namespace

void bind_balancing(py::module_& module) {
  module.def("place_in_order", &place_in_order, py::arg("times").noconvert(),
             py::arg("order").noconvert(), py::kw_only(), py::arg("max_per_core"),
             "(slices,) int64: each slice on the core that then ends earliest.");
  module.def("balance", &balance, py::arg("times").noconvert(), py::arg("start").noconvert(),
             py::kw_only(), py::arg("max_per_core"), py::arg("changes"),
             "(slices,) int64: cores after moves and exchanges that relieve the fullest core.");
}

}  // namespace pmoss::bindings
