// The analytic model as Python holds it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>
#include <utility>

#include "analytic/model.hpp"
#include "environment/forks.hpp"

namespace pmoss::bindings {

/// Calls change the model, so that threads take turns. Python's go through with(): the lock is
/// taken without the GIL and given back before it, or two threads could wait for each other.
struct SharedModel {
  SharedModel(const Machine& machine, const Load& load, analytic::ModelOptions options)
      : model(std::make_unique<analytic::Model>(machine, load, options)),
        load_(load),
        options_(options) {}

  /// Another machine under the same load; what holds this goes on with it, without an instance.
  /// Throws std::invalid_argument for an impossible machine; then nothing has changed.
  void set_machine(const Machine& machine) {
    const pybind11::gil_scoped_release release;
    auto next = std::make_unique<analytic::Model>(machine, load_, options_);
    const std::scoped_lock lock(mutex);
    model = std::move(next);
  }

  template <typename Work>
  auto with(Work work) {
    const pybind11::gil_scoped_release release;
    const std::scoped_lock lock(mutex);
    return work(*model);
  }

  std::unique_ptr<analytic::Model> model;  // never null
  environment::ForkAwareMutex mutex;

 private:
  const Load load_;
  const analytic::ModelOptions options_;
};

}  // namespace pmoss::bindings
