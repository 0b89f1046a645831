// Where the data of a slice are to lie, and where the kernel says that they lie.
#pragma once

#include <cstdint>
#include <string>

#include "numa/placed_memory.hpp"

namespace pmoss::runtime {

/// What the kernel answered about one slice, in pages of 4 KiB.
struct SlicePlacement {
  std::uint64_t pages = 0;  ///< that are resident; 0 if not asked for
  std::uint64_t home = 0;   ///< of these, where the schedule wants them
  int error_number = 0;     ///< why others lie elsewhere; 0 if none does
  bool pending = false;     ///< the measurement ended before the slice was moved
  numa::ResidentPages where;

  bool in_place() const noexcept { return error_number == 0 && !pending; }
  /// Empty if the slice is in place; else the cause, and the way out.
  std::string cause() const;
};

/// Asks the kernel where a slice lies. The error is that of the kernel; of a full node, if it has
/// no room for the pages that lie elsewhere; or EBUSY.
SlicePlacement find_placement(const numa::PlacedMemory& memory, const numa::Placement& wanted);

}  // namespace pmoss::runtime
