#include "machine/placement.hpp"

#include <stdexcept>

namespace pmoss {

void require_modelled(DataPlacement data) {
  if (data == DataPlacement::first_touch || data == DataPlacement::keep) {
    throw std::invalid_argument(
        "data is first_touch or keep, which only hardware knows; a model knows slice, interleaved "
        "and loader");
  }
}

}  // namespace pmoss
