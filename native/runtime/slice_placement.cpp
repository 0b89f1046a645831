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
  SlicePlacement found;
  found.where = memory.resident_pages();
  found.error_number = found.where.error_number;
  if (found.error_number != 0) return found;
  found.pages = found.where.total();
  found.home = found.where.home(wanted);
  if (found.home == found.pages) return found;
  found.error_number = memory.placement_error();
  if (found.error_number == 0) {
    found.error_number = has_room(wanted, found.pages - found.home) ? EBUSY : ENOMEM;
  }
  return found;
}

}  // namespace pmoss::runtime
