// The Python classes of the index structures themselves. Each kind's file here registers its own.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

namespace pmoss::bindings {

using BindIndexClass = void (*)(pybind11::module_&);

/// Filled before the module is loaded.
inline std::vector<BindIndexClass>& index_classes() {
  static std::vector<BindIndexClass> classes;
  return classes;
}

struct IndexClassRegistration {
  explicit IndexClassRegistration(BindIndexClass bind) { index_classes().push_back(bind); }
};

}  // namespace pmoss::bindings
