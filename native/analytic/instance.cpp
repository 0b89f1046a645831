#include "analytic/instance.hpp"

#include <algorithm>
#include <utility>

#include "analytic/decay.hpp"

namespace pmoss::analytic {
namespace {

/// What the touches of a class wait while one touch takes 1 ns: misses overlap.
double wait_of(const SliceProfiles& profiles, std::size_t k, const Machine& machine) {
  return profiles.dependent[k] / machine.mlp_dependent +
         profiles.streaming[k] / machine.mlp_streaming;
}

}  // namespace

void Instance::set(SliceProfiles new_profiles, const Machine& machine) {
  profiles = std::move(new_profiles);
  const std::size_t n = slices();
  row_.assign(1, 0);
  for (std::size_t slice = 0; slice < n; ++slice) {
    const std::size_t count = profiles.first_class[slice + 1] - profiles.first_class[slice];
    row_.push_back(row_.back() + (count + row_lanes - 1) / row_lanes * row_lanes);
  }
  for (auto* values : {&lines, &rates, &waits, &touches, &dependent, &dirty_share, &locks}) {
    values->resize(row_.back());
  }
  for (std::size_t slice = 0; slice < n; ++slice) {
    std::size_t to = row_[slice];
    for (std::size_t k = profiles.first_class[slice]; k < profiles.first_class[slice + 1];
         ++k, ++to) {
      lines[to] = profiles.lines[k];
      rates[to] = profiles.line_rate[k];
      touches[to] = profiles.lines[k] * profiles.line_rate[k];
      waits[to] = wait_of(profiles, k, machine);
      dependent[to] = profiles.dependent[k];
      dirty_share[to] = profiles.dirty_share[k];
      locks[to] = profiles.locks[k];
    }
    for (; to < row_[slice + 1]; ++to) {
      for (auto* values : {&lines, &rates, &waits, &touches, &dependent, &dirty_share, &locks}) {
        (*values)[to] = 0.0;
      }
    }
  }
  computation_ns.resize(n);
  l2_ns.resize(n);
  for (std::size_t s = 0; s < n; ++s) {
    l2_ns[s] = profiles.share[s] * machine.l2_ns *
               (profiles.dependent_touches[s] / machine.mlp_dependent +
                profiles.streaming_touches[s] / machine.mlp_streaming);
    computation_ns[s] =
        profiles.share[s] *
        (profiles.instructions[s] / machine.instructions_per_cycle +
         profiles.branch_misses[s] * machine.branch_miss_cycles + machine.query_overhead_cycles) /
        machine.clock_ghz;
  }
  queries.resize(n);
  for (std::size_t s = 0; s < n; ++s) {
    queries[s] = {computation_ns[s] + l2_ns[s], profiles.share[s], 1.0 + profiles.variation[s]};
  }
}

std::size_t Instance::longest_row() const {
  std::size_t longest = 0;
  for (Index slice = 0; slice < slices(); ++slice) longest = std::max(longest, classes(slice));
  return longest;
}

std::vector<double> Instance::waits_without_padding(const Machine& machine) const {
  std::vector<double> result(profiles.classes());
  for (std::size_t k = 0; k < result.size(); ++k) result[k] = wait_of(profiles, k, machine);
  return result;
}

}  // namespace pmoss::analytic
