// The built-in kinds of index, each in a file of its own.
#pragma once

#include "kinds/index_kind.hpp"

namespace pmoss::kinds {

IndexKind btree();
IndexKind rtree();

// How they are served on this host: empty functions in a build without the runtime.
extern const bool indexes_are_served;
Serve serve_btree();
Serve serve_rtree();

}  // namespace pmoss::kinds
