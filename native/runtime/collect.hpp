// What the threads of a measurement counted, as one result.
#pragma once

#include "runtime/crew.hpp"
#include "runtime/measurement.hpp"
#include "runtime/plan.hpp"
#include "runtime/served_index.hpp"

namespace pmoss::runtime {

/// After Crew::drain(). Asks the kernel where the slices lie now.
Measurement collect(const Plan& plan, const Crew& crew, const ServedIndex& index);

}  // namespace pmoss::runtime
