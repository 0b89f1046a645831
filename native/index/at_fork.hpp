// What the child of a fork() does first.
#pragma once

namespace pmoss {

/// `call` runs in each child, before fork() returns there. Without fork() it never runs.
void at_fork_in_child(void (*call)()) noexcept;

}  // namespace pmoss
