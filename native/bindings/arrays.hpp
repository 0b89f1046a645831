// Arrays that Python lends: read as they are, or written in place.
#pragma once

#include <pybind11/numpy.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

namespace pmoss::bindings {

// No cast and no copy: what is read is what was given.
template <typename T>
using Array = pybind11::array_t<T, pybind11::array::c_style>;

// The writable array `name` of `arrays`, checked for its type and size.
template <typename T>
T* writable(const pybind11::dict& arrays, const char* name, std::size_t size) {
  if (!arrays.contains(name)) throw pybind11::key_error(name);
  const pybind11::object object = arrays[name];
  if (!pybind11::isinstance<Array<T>>(object)) {
    throw pybind11::type_error(std::string(name) +
                               ": must be a contiguous array of the right type");
  }
  auto array = pybind11::reinterpret_borrow<Array<T>>(object);
  if (static_cast<std::size_t>(array.size()) != size) {
    throw std::invalid_argument("size of " + std::string(name) + " = " +
                                std::to_string(array.size()) + ": must be " + std::to_string(size));
  }
  return array.mutable_data();  // throws where it is read-only
}

template <typename T>
std::span<const T> view(const Array<T>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

}  // namespace pmoss::bindings
