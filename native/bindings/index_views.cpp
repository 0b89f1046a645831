// The built-in kinds of index, as their runners show them.
#include "bindings/index_views.hpp"

#include "kinds/served_btree.hpp"
#include "kinds/served_rtree.hpp"

namespace pmoss::bindings {
namespace {

const IndexViewRegistration btree{view_of_tree<kinds::ServedBTree>};
const IndexViewRegistration rtree{view_of_tree<kinds::ServedRTree>};

}  // namespace
}  // namespace pmoss::bindings
