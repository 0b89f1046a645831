// An index that runs on the analytic model, as Python holds it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "bindings/shared_model.hpp"
#include "environment/epochs.hpp"
#include "environment/running.hpp"

namespace pmoss::bindings {

/// An index together with the model that it runs on.
struct ModelledIndex {
  ModelledIndex(const Machine& machine, std::shared_ptr<SharedModel> shared,
                std::vector<double> slice_bytes, double most_gb_per_s)
      : model(std::move(shared)), running(machine, std::move(slice_bytes), most_gb_per_s) {}

  std::shared_ptr<SharedModel> model;
  environment::RunningIndex running;
};

/// The same in a batch, whose threads have no lock of the interpreter.
class ModelledRuns : public environment::Runs {
 public:
  explicit ModelledRuns(std::shared_ptr<ModelledIndex> index) : of_(std::move(index)) {}
  environment::RunningIndex& index() override { return of_->running; }
  environment::Epoch run(const environment::Conditions& conditions, double seconds,
                         double limit_us) override {
    const std::scoped_lock lock(of_->model->mutex);
    return of_->running.run(*of_->model->model, conditions, seconds, limit_us);
  }

 private:
  std::shared_ptr<ModelledIndex> of_;
};

/// What came of an epoch, as plain values.
pybind11::dict of_epoch(const environment::Epoch& epoch);

}  // namespace pmoss::bindings
