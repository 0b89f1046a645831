// What the threads of a measurement counted, as one result.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/crew.hpp"
#include "runtime/measurement.hpp"
#include "runtime/plan.hpp"
#include "workload/histogram.hpp"

namespace pmoss::runtime {

/// Arrivals at equal distances that no router has sent.
struct UnsentArrivals {
  static constexpr std::uint64_t most_parts = 1000;

  double begin;   ///< ticks
  double length;  ///< ticks, at least 0
  std::uint64_t count;

  /// Adds their response times, if they are served in their order and at equal distances: the last
  /// one `lasting` ticks after `from`. Of many, neighbours have one time.
  void add_to(Histogram& late, double from, double lasting) const noexcept;
};

/// After Crew::drain().
Measurement collect(const Plan& plan, const Crew& crew);

/// Makes rounds of what the sweepers found. Used by the thread that stitches.
class RoundCollector {
 public:
  /// The crew may be built later than this.
  RoundCollector(const Plan& plan, const std::optional<Crew>& crew) : plan_(plan), crew_(crew) {}

  /// Empty if no worker counted in it: the run has not really begun, or it is over.
  std::optional<Round> collect(const WholeRound& whole);

 private:
  void add_offcore(const OffcoreSnapshot& offcore, Round& round);
  void add_migration(Round& round);
  void add_routers(Round& round);

  const Plan& plan_;
  const std::optional<Crew>& crew_;
  std::vector<pmu::OffcoreCounters::Counts> offcore_before_;
  double before_seconds_ = 0.0;
  std::uint64_t moved_before_ = 0;
  std::uint64_t backpressure_before_ = 0;
  std::uint64_t told_ = 0;  ///< rounds
};

}  // namespace pmoss::runtime
