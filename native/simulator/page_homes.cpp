#include "simulator/page_homes.hpp"

#include "simulator/tlb.hpp"
#include "workload/random.hpp"

namespace pmoss::simulator {

std::uint8_t PageHomes::of(std::uint32_t page, std::uint16_t slice) const {
  const auto own = static_cast<std::uint8_t>(placement_.nodes[slice]);
  if (placement_.data == DataPlacement::slice) return own;
  page /= Tlb::base_pages(machine_);
  if (placement_.data == DataPlacement::interleaved) {
    return static_cast<std::uint8_t>(page % machine_.socket_of_node.size());
  }
  if (!balancing_) return 0;
  Random hash(mix64(page));
  if (hash.uniform() < stay_share_) return 0;
  std::size_t core = workers_[hash.below(workers_.size())];
  if (placement_.routing == Routing::node) return own;
  if (placement_.routing == Routing::core) core = static_cast<std::size_t>(placement_.cores[slice]);
  return static_cast<std::uint8_t>(machine_.node_of_core[core]);
}

}  // namespace pmoss::simulator
