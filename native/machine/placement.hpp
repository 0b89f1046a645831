// Where slices are served and where their data lie: the schedules of the P-MOSS paper (section 7.1)
// in one form.
#pragma once

#include <cstdint>
#include <span>

namespace pmoss {

/// Which worker runs a query of a slice.
enum class Routing : std::uint8_t {
  core,  ///< the slice's own core (SN:T)
  node,  ///< a random worker of the slice's node (SN:N)
  any,   ///< a random worker (SE:N, OS:D, OS:I)
};

/// Which node holds a page.
enum class DataPlacement : std::uint8_t {
  slice,        ///< the slice's node
  interleaved,  ///< nodes in turn, page by page (OS:I)
  first_touch,  ///< the node of the thread that loaded the index, node 0 (OS:D)
};

/// A schedule of all slices. `cores` is not used unless the routing is by core.
struct Placement {
  std::span<const std::int32_t> cores;
  std::span<const std::int32_t> nodes;
  Routing routing = Routing::core;
  DataPlacement data = DataPlacement::slice;
};

}  // namespace pmoss
