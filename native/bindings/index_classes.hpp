// The Python classes of the index structures themselves. Each kind's file here registers its own.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "runtime/served_index.hpp"

namespace pmoss::bindings {

struct IndexClass {
  void (*bind)(pybind11::module_&);
  /// A runner's index as an object of the class, which keeps the runner alive; None for an index of
  /// another kind.
  pybind11::object (*view)(const runtime::ServedIndex& index, pybind11::handle runner);
};

/// Filled before the module is loaded.
inline std::vector<IndexClass>& index_classes() {
  static std::vector<IndexClass> classes;
  return classes;
}

struct IndexClassRegistration {
  explicit IndexClassRegistration(IndexClass index_class) {
    index_classes().push_back(index_class);
  }
};

/// `view` of an index that the runtime serves as `Served`, whose tree() has a Python class.
template <class Served>
pybind11::object view_of_tree(const runtime::ServedIndex& index, pybind11::handle runner) {
  const auto* const served = dynamic_cast<const Served*>(&index);
  if (served == nullptr) return pybind11::none();
  return pybind11::cast(&served->tree(), pybind11::return_value_policy::reference_internal, runner);
}

}  // namespace pmoss::bindings
