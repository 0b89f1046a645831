// The availability of counters, as Python sees it.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "pmu/events.hpp"

namespace pmoss::bindings {

pybind11::list events_list(const std::vector<pmu::Availability>& events);

}  // namespace pmoss::bindings
