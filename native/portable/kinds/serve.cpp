// Nothing is served without the runtime.
#include "kinds/built_in.hpp"

namespace pmoss::kinds {

const bool indexes_are_served = false;

Serve serve_btree() { return {}; }

Serve serve_rtree() { return {}; }

}  // namespace pmoss::kinds
