// The index of a runner as an object of its Python class (index_classes.hpp).
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "runtime/served_index.hpp"

namespace pmoss::bindings {

/// The object, which keeps the runner alive; None for an index of another kind.
using ViewIndex = pybind11::object (*)(const runtime::ServedIndex& index, pybind11::handle runner);

/// Filled before the module is loaded.
inline std::vector<ViewIndex>& index_views() {
  static std::vector<ViewIndex> views;
  return views;
}

struct IndexViewRegistration {
  explicit IndexViewRegistration(ViewIndex view) { index_views().push_back(view); }
};

/// The view of an index that the runtime serves as `Served`, whose tree() has a Python class.
template <class Served>
pybind11::object view_of_tree(const runtime::ServedIndex& index, pybind11::handle runner) {
  const auto* const served = dynamic_cast<const Served*>(&index);
  if (served == nullptr) return pybind11::none();
  return pybind11::cast(&served->tree(), pybind11::return_value_policy::reference_internal, runner);
}

}  // namespace pmoss::bindings
