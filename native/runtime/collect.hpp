// What the threads of a measurement counted, as one result.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/crew.hpp"
#include "runtime/measurement.hpp"
#include "runtime/plan.hpp"

namespace pmoss::runtime {

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
