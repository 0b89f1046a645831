// Profiles of any index and workload, from a recording.
#pragma once

#include "analytic/profile.hpp"
#include "recording/trace.hpp"

namespace pmoss::analytic {

/// Lines are sorted into classes by how often they were touched. Few touches of a line say little
/// about its popularity. So the classes are those of the mixture of Poisson distributions that best
/// fits the numbers of touches. Untouched lines are included. Throws std::invalid_argument for a
/// trace without queries.
SliceProfiles profile_trace(const recording::Trace& trace);

}  // namespace pmoss::analytic
