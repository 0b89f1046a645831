// A fence in all threads of the process at once, which the kernel makes for one of them.
#pragma once

namespace pmoss {

/// Asks to be allowed; false if this system has no such fence, or refuses it.
bool may_order_all_threads() noexcept;

/// The fence. False if it was not allowed before.
bool order_all_threads() noexcept;

}  // namespace pmoss
