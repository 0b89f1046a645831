// A portable build does not look at its host.
#include "bindings/bindings.hpp"

namespace pmoss::bindings {

void bind_host(pybind11::module_&) {}

}  // namespace pmoss::bindings
