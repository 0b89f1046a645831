#include "analytic/mesh_map.hpp"

#include <algorithm>
#include <utility>

namespace pmoss::analytic {

MeshMap::MeshMap(const Machine& machine, const CoreMap& map) : machine_(machine), map_(map) {
  if (!machine.has_mesh()) return;
  std::vector<std::pair<Index, Index>> places;
  place_of_core_.assign(map.cores(), 0);
  for (const Index core : map.workers) {
    const std::pair place{map.node_of_core[core], map.llc_of_core[core]};
    const auto known_place = std::find(places.begin(), places.end(), place);
    place_of_core_[core] = static_cast<Index>(known_place - places.begin());
    if (known_place == places.end()) places.push_back(place);
  }
  const std::size_t n = places.size();
  mean_line_ns_.assign(n, 0.0);
  mean_modified_ns_.assign(n * n, 0.0);
  std::vector<double> cores(n, 0.0), pairs(n * n, 0.0);
  for (const Index reader : map.workers) {
    const Index reader_place = place_of_core_[reader];
    mean_line_ns_[reader_place] += machine.mesh_ns[reader];
    cores[reader_place] += 1.0;
    for (const Index owner : map.workers) {
      if (map.physical_of_core[owner] == map.physical_of_core[reader]) continue;
      const std::size_t at = reader_place * n + place_of_core_[owner];
      mean_modified_ns_[at] += machine.mesh_modified_ns[reader * map.cores() + owner];
      pairs[at] += 1.0;
    }
  }
  for (std::size_t i = 0; i < n; ++i) mean_line_ns_[i] /= cores[i];
  for (std::size_t i = 0; i < n * n; ++i) mean_modified_ns_[i] /= std::max(1.0, pairs[i]);
}

}  // namespace pmoss::analytic
