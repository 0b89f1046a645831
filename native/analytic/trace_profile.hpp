// Profiles of whatever index and workload, from what was recorded when it ran.
#pragma once

#include "analytic/profile.hpp"
#include "recording/trace.hpp"

namespace pmoss::analytic {

/// Lines are sorted into classes by how often they were touched. Few touches of a line say little
/// about its popularity, so the classes are those of a mixture of Poisson distributions that
/// explains the numbers of touches best, untouched lines included. Throws std::invalid_argument
/// for a trace without queries.
SliceProfiles profile_trace(const recording::Trace& trace);

}  // namespace pmoss::analytic
