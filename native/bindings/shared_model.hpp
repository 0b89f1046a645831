// The analytic model as Python holds it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "analytic/model.hpp"
#include "environment/batch.hpp"
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

  /// One more model of the same machine under the same load, without an instance.
  std::unique_ptr<analytic::Model> another() {
    const std::scoped_lock lock(mutex);
    return std::make_unique<analytic::Model>(model->machine(), load_, options_);
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

/// What a batch asks of a model.
class ModelSource : public environment::ThroughputSource {
 public:
  explicit ModelSource(std::shared_ptr<SharedModel> shared) : shared_(std::move(shared)) {}
  Snapshot open(const environment::Opening& opening) override {
    const std::scoped_lock lock(shared_->mutex);
    return environment::open(*shared_->model, opening);
  }
  // Another model, so that the one at hand goes on with its episode. Each serves in turn.
  void prepare(const environment::Opening& opening) override {
    if (!next_) next_ = shared_->another();
    prepared_ = environment::open(*next_, opening);
  }
  Snapshot take() override {
    const std::scoped_lock lock(shared_->mutex);
    std::swap(shared_->model, next_);
    return std::move(prepared_);
  }
  double place(std::span<const std::int32_t> cores, std::span<const std::int32_t> nodes) override {
    const std::scoped_lock lock(shared_->mutex);
    return shared_->model->place({cores, nodes});
  }
  double move(int slice, int core, int node) override {
    const std::scoped_lock lock(shared_->mutex);
    return shared_->model->move(slice, core, node);
  }

 private:
  std::shared_ptr<SharedModel> shared_;
  std::unique_ptr<analytic::Model> next_;
  Snapshot prepared_;
};

}  // namespace pmoss::bindings
