// What the threads of a measurement counted, as one result.
#pragma once

#include "runtime/crew.hpp"
#include "runtime/measurement.hpp"
#include "runtime/plan.hpp"

namespace pmoss::runtime {

/// After Crew::drain().
Measurement collect(const Plan& plan, const Crew& crew);

}  // namespace pmoss::runtime
