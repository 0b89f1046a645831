#include "index/at_fork.hpp"

#include <pthread.h>

namespace pmoss {

void at_fork_in_child(void (*call)()) noexcept { ::pthread_atfork(nullptr, nullptr, call); }

}  // namespace pmoss
