// There is no fork().
#include "index/at_fork.hpp"

namespace pmoss {

void at_fork_in_child(void (*)()) noexcept {}

}  // namespace pmoss
