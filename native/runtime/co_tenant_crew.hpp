// Co-tenants that run by themselves, beside whatever else runs, until they are stopped.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/co_tenant.hpp"
#include "runtime/control.hpp"
#include "runtime/threads.hpp"

namespace pmoss::runtime {

/// The threads of some co-tenants. They end with it.
///
/// Example: beside a live run, one spinning thread takes half of CPU 1 from now on. When the crew
/// dies, CPU 1 is the run's again, and the run has noticed nothing but the time that it lost.
class CoTenantCrew {
 public:
  /// Returns once all of them work. Throws RunnerError for a thread that fails (no such CPU, no
  /// memory), and Cancelled if `poll` says so; then all have ended.
  CoTenantCrew(std::vector<CoTenant> co_tenants, const Poll& poll);

 private:
  const std::vector<CoTenant> co_tenants_;
  Control control_;
  Threads threads_{control_};  ///< after all that its threads use
};

}  // namespace pmoss::runtime
