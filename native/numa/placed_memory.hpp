// Memory of any allocator, whose place can be asked for and changed.
#pragma once

#include "numa/memory.hpp"

namespace pmoss::numa {

/// All members may be called while others use the memory.
class PlacedMemory {
 public:
  virtual ~PlacedMemory() = default;

  virtual ResidentPages resident_pages() const = 0;
  virtual PageMove move_pages(int node) = 0;
  /// 0 or the errno.
  virtual int place_from_now_on(const Placement& placement) = 0;
  /// Why the kernel last refused to place some of the memory; 0 if it did not.
  virtual int placement_error() const = 0;
};

}  // namespace pmoss::numa
