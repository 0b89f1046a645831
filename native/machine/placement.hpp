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

/// Which node holds a page. "first_touch" of schedules, datasets and results is `loader` on a model
/// and `first_touch` on hardware. Both are Linux's default for an index that one thread loaded; a
/// model has no later pages of its own, and node 0 stands for the loader's.
enum class DataPlacement : std::uint8_t {
  slice,        ///< the node that the schedule names for the page's slice
  interleaved,  ///< all nodes in turn, page by page (OS:I)
  loader,       ///< node 0, where the index was loaded; the schedule's nodes do not matter (OS:D)
  first_touch,  ///< a loaded page as `slice`, a later one where a worker touches it first (OS:D)
  keep,         ///< wherever the page is: nothing moves
};

/// Models know the first three placements. Throws std::invalid_argument for the others.
void require_modelled(DataPlacement data);

/// A schedule of all slices. `cores` is not used unless the routing is by core.
struct Placement {
  std::span<const std::int32_t> cores;
  std::span<const std::int32_t> nodes;
  Routing routing = Routing::core;
  DataPlacement data = DataPlacement::slice;
};

}  // namespace pmoss
