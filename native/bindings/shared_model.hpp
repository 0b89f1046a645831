// The analytic model as Python holds it.
#pragma once

#include <pybind11/pybind11.h>

#include <mutex>

#include "analytic/model.hpp"
#include "environment/forks.hpp"

namespace pmoss::bindings {

/// Calls change the model, so that threads take turns. Python's go through with(): the lock is
/// taken without the GIL and given back before it, or two threads could wait for each other.
struct SharedModel {
  SharedModel(const Machine& machine, const Load& load, analytic::ModelOptions options)
      : model(machine, load, options) {}

  template <typename Work>
  auto with(Work work) {
    const pybind11::gil_scoped_release release;
    const std::scoped_lock lock(mutex);
    return work(model);
  }

  analytic::Model model;
  environment::ForkAwareMutex mutex;
};

}  // namespace pmoss::bindings
