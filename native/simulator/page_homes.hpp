// Which node's memory a page lies in.
#pragma once

#include <cstdint>
#include <span>

#include "machine/machine.hpp"
#include "machine/placement.hpp"

namespace pmoss::simulator {

/// A view of what decides it.
class PageHomes {
 public:
  /// With `balancing`, pages on the loader's node have moved to the node of one of those that
  /// access them, except `stay_share` of them.
  PageHomes(const Machine& machine, std::span<const std::uint32_t> workers,
            const Placement& placement, bool balancing, double stay_share)
      : machine_(machine),
        workers_(workers),
        placement_(placement),
        balancing_(balancing),
        stay_share_(stay_share) {}

  /// `page` in units of 4 KiB.
  std::uint8_t of(std::uint32_t page, std::uint16_t slice) const;

 private:
  const Machine& machine_;
  std::span<const std::uint32_t> workers_;
  const Placement& placement_;
  bool balancing_;
  double stay_share_;
};

}  // namespace pmoss::simulator
