// Event codes by name, from libpfm4 where it is installed.
#pragma once

#include <functional>
#include <string>

struct perf_event_attr;

namespace pmoss::pmu {

/// Fills in type and code of an event of this CPU. False if there is none of that name.
using NameEncoder = std::function<bool(const std::string& name, perf_event_attr& attributes)>;

/// libpfm4's names, such as "MEM_LOAD_RETIRED:L3_MISS". The library is looked for when the program
/// runs; empty if it is not there.
const NameEncoder& libpfm_encoder();

}  // namespace pmoss::pmu
