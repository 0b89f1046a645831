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

/// The caller asked to stop. All threads have ended.
class Cancelled : public RunnerError {
 public:
  using RunnerError::RunnerError;
};

}  // namespace pmoss::runtime
