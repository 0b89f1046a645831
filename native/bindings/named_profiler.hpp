// A profiler as Python holds it.
#pragma once

#include "kinds/index_kind.hpp"

namespace pmoss::bindings {

struct NamedProfiler {
  kinds::Profiler profiles;
};

}  // namespace pmoss::bindings
