// The built-in kinds of index, each in a file of its own.
#pragma once

#include "kinds/index_kind.hpp"

namespace pmoss::kinds {

IndexKind btree();
IndexKind rtree();

}  // namespace pmoss::kinds
