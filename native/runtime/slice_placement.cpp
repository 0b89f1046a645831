#include "runtime/slice_placement.hpp"

#include <cerrno>
#include <vector>

#include "numa/available_memory.hpp"

namespace pmoss::runtime {
namespace {

constexpr std::uint64_t page_bytes = 4096;

bool has_room(const numa::Placement& wanted, std::uint64_t pages) {
  // Kernels keep a reserve on every node that they do not give away.
  constexpr std::uint64_t reserve = std::uint64_t{16} << 20;
  std::vector<int> nodes = wanted.nodes;
  if (wanted.kind == numa::Placement::Kind::node) nodes = {wanted.node};
  for (const int node : nodes) {
    const auto available = numa::available_on_node(node);
    if (available && *available < pages * page_bytes / nodes.size() + reserve) return false;
  }
  return true;
}

}  // namespace

std::string SlicePlacement::cause() const {
  if (in_place()) return "";
  if (pending) return "not moved yet when the measurement ended";
  return std::to_string(pages - home) + " of " + std::to_string(pages) +
         " pages lie elsewhere: " + numa::explain_memory_error(error_number);
}

SlicePlacement find_placement(const numa::PlacedMemory& memory, const numa::Placement& wanted) {
  SlicePlacement placement;
  placement.where = memory.resident_pages();
  placement.error_number = placement.where.error_number;
  if (placement.error_number != 0) return placement;
  placement.pages = placement.where.total();
  placement.home = placement.where.home(wanted);
  if (placement.home == placement.pages) return placement;
  placement.error_number = memory.placement_error();
  if (placement.error_number == 0) {
    placement.error_number = has_room(wanted, placement.pages - placement.home) ? EBUSY : ENOMEM;
  }
  return placement;
}

}  // namespace pmoss::runtime
