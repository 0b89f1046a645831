// What load() and measure() throw besides std::invalid_argument and std::bad_alloc.
#pragma once

#include <stdexcept>

namespace pmoss::runtime {

/// A measurement could not be made. what() names the role, the CPU and the cause. The exception of
/// the thread that failed is nested in it (std::rethrow_if_nested).
class RunnerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The kernel or a container does not let this process place data, or say where they lie, and the
/// schedule needs that. what() names the way out.
class PlacementRefused : public RunnerError {
 public:
  using RunnerError::RunnerError;
};

/// The caller asked to stop. All threads have ended.
class Cancelled : public RunnerError {
 public:
  using RunnerError::RunnerError;
};

}  // namespace pmoss::runtime
