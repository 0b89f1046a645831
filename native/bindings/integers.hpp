// Integers from Python without loss: a 64-bit key that passes through a double is another key.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pmoss::bindings {

/// Raises the OverflowError for `number`, a Python integer.
[[noreturn]] inline void refuse_integer(const pybind11::handle& number) {
  namespace py = pybind11;
  // Python refuses to spell out very long integers.
  const auto bits = number.attr("bit_length")().cast<std::size_t>();
  const std::string shown = bits <= 256 ? py::str(number).cast<std::string>()
                                        : "an integer of " + std::to_string(bits) + " bits";
  PyErr_SetString(PyExc_OverflowError,
                  (shown + " was given; integers here must lie in 0 .. 2^64 - 1").c_str());
  throw py::error_already_set();
}

/// A contiguous array of unsigned 64-bit integers with the values and the shape of `object`. That
/// may be an integer, a sequence of integers or an integer array. Anything else is a TypeError;
/// numbers below 0 or beyond 64 bits are an OverflowError.
inline pybind11::array_t<std::uint64_t> as_integers(const pybind11::object& object) {
  namespace py = pybind11;
  using Integers = py::array_t<std::uint64_t>;
  const auto numpy = py::module_::import("numpy");
  if (!py::isinstance<py::array>(object)) {
    // As Python objects: numpy turns a list with numbers on both sides of 2^63 into floats.
    const py::array objects = numpy.attr("asarray")(object, py::arg("dtype") = "object");
    Integers result(std::vector<py::ssize_t>(objects.shape(), objects.shape() + objects.ndim()));
    auto* out = result.mutable_data();
    for (const py::handle item : objects.attr("ravel")()) {
      const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
      if (!index) throw py::error_already_set();
      *out = PyLong_AsUnsignedLongLong(index.ptr());
      if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        refuse_integer(index);
      }
      ++out;
    }
    return result;
  }
  const auto array = py::reinterpret_borrow<py::array>(object);
  const char kind = array.dtype().kind();
  if (kind != 'u' && kind != 'i') {
    throw py::type_error("an array of " + std::string(py::str(array.dtype())) +
                         " was given; integers are needed, best of type uint64");
  }
  if (kind == 'i' && array.size() > 0) {
    const auto least = array.attr("min")().attr("item")().cast<py::int_>();
    if (least.cast<std::int64_t>() < 0) refuse_integer(least);
  }
  return py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>(array);
}

/// Applies `function` to every integer without the interpreter's lock; a scalar gives a scalar.
template <class Result, class Function>
pybind11::object map_integers(const pybind11::object& object, Function function) {
  namespace py = pybind11;
  const auto integers = as_integers(object);
  py::array_t<Result> result(
      std::vector<py::ssize_t>(integers.shape(), integers.shape() + integers.ndim()));
  const auto* const from = integers.data();
  auto* const to = result.mutable_data();
  const py::ssize_t n = integers.size();
  {
    const py::gil_scoped_release release;
    for (py::ssize_t i = 0; i < n; ++i) to[i] = function(from[i]);
  }
  if (integers.ndim() == 0) return py::cast(*to);
  return result;
}

}  // namespace pmoss::bindings
