#include "analytic/class_caches.hpp"

#include <algorithm>
#include <cmath>

namespace pmoss::analytic {

ClassCaches::ClassCaches(const CacheInputs& inputs)
    : Caches(inputs), coherence_(inputs), domain_time_(inputs.map.domains, 0.0) {}

void ClassCaches::set_instance() {
  shared_past_l2_.assign(instance_.longest_row(), 0.0);
  shared_past_llc_.assign(instance_.longest_row(), 0.0);
  written_.clear();
  for (Index slice = 0; slice < instance_.slices(); ++slice) {
    const auto row =
        instance_.dirty_share.begin() + static_cast<std::ptrdiff_t>(instance_.row(slice));
    const auto end = row + static_cast<std::ptrdiff_t>(instance_.classes(slice));
    written_.push_back(std::any_of(row, end, [](double dirty) { return dirty > 0.0; }));
  }
}

void ClassCaches::start() {
  first_state_.clear();
  std::size_t states = 0;
  for (Index i = 0; i < streams_.size(); ++i) {
    first_state_.push_back(states);
    states += instance_.classes(streams_[i].touched);
  }
  first_state_.push_back(states);
  past_l2_.assign(states, 0.0);
  past_llc_.assign(states, 0.0);
  owners_wait_.assign(streams_.size(), {});
  demand_.assign(streams_.size(), Demand{});
}

void ClassCaches::mark_new_owners(StreamSet& streams) {
  for (Index i = 0; i < streams.size(); ++i) {
    if (written_[streams[i].touched] == 0) continue;
    const Coherence::OwnersWait wait = coherence_.owners_wait(streams[i]);
    if (wait == owners_wait_[i]) continue;
    owners_wait_[i] = wait;
    streams.mark_domain(streams.domain_of(streams[i]));
  }
}

/// What the streams of a list hold together: padded classes, side by side.
std::size_t ClassCaches::classes_of(const std::vector<Index>& list) const {
  std::size_t classes = 0;
  for (const Index i : list) classes += this->classes(i);
  return classes;
}

/// Fills in the lines of a stream that compete for a cache, and how often each is touched.
/// `through`: touches that go through that cache, as in Reach; `copies`: cores like the stream's
/// behind it.
void ClassCaches::enter_lines(Index i, double through, int copies, double* lines,
                              double* rates) const {
  const Stream& stream = streams_[i];
  const Reach& reach = streams_.reach(i);
  const std::size_t first = instance_.row(stream.touched);
  const std::size_t n = classes(i);
  // A line that several streams touch through this cache is there once.
  const double mine =
      through > 0.0 ? stream.part * stream.share * reach.pace * copies / through : 0.0;
  for (std::size_t k = 0; k < n; ++k) {
    lines[k] = instance_.lines[first + k] * mine;
    rates[k] = instance_.rates[first + k] * through;
  }
  const double others = reach.all - through;
  if (others <= 0.0) return;
  // Writers elsewhere invalidate the copy.
  for (std::size_t k = 0; k < n; ++k) {
    const double lost = others * instance_.dirty_share[first + k];
    if (lost == 0.0) continue;
    lines[k] *= through / (through + lost);
    rates[k] = instance_.rates[first + k] * (through + lost);
  }
}

void ClassCaches::solve_core(Index physical) {
  solve_private(physical);
  solve_pages(physical);
}

void ClassCaches::solve_private(Index physical) {
  const std::vector<Index>& list = streams_.of_physical(physical);
  residents_.start(classes_of(list));
  std::size_t at = 0;
  for (const Index i : list) {
    enter_lines(i, streams_.reach(i).own, streams_[i].threads, residents_.lines() + at,
                residents_.rates() + at);
    at += classes(i);
  }
  private_time_[physical] = residents_.solve(machine_.l2_lines, 0.0);
  const double* left = residents_.decay();
  for (const Index i : list) {
    std::copy_n(left, classes(i), &past_l2_[first_state_[i]]);
    left += classes(i);
  }
}

/// The address translation of one physical core: pages compete for the two levels as lines do.
void ClassCaches::solve_pages(Index physical) {
  const SliceProfiles& profiles = instance_.profiles;
  const std::vector<Index>& list = streams_.of_physical(physical);
  std::size_t classes = 0;
  for (const Index i : list) {
    const Index t = streams_[i].touched;
    classes += profiles.first_page_class[t + 1] - profiles.first_page_class[t];
  }
  residents_.start(classes);
  double* pages = residents_.lines();
  double* rates = residents_.rates();
  for (const Index i : list) {
    const Stream& stream = streams_[i];
    const Reach& reach = streams_.reach(i);
    const Index t = stream.touched;
    const double mine = reach.own > 0.0
                            ? stream.part * stream.share * reach.pace * stream.threads / reach.own
                            : 0.0;
    for (std::size_t k = profiles.first_page_class[t]; k < profiles.first_page_class[t + 1]; ++k) {
      *pages++ = profiles.pages[k] * mine;
      *rates++ = profiles.page_rate[k] * reach.own;
    }
    demand_[i].walk_ns = 0.0;
    demand_[i].dtlb_misses = 0.0;
  }
  // What the first level lacks the second one serves, unless it lacks it, too.
  const double second_ns = second_tlb_ns();
  if (second_ns > 0.0) {
    residents_.solve(machine_.dtlb_pages, 0.0);
    add_page_misses(list, 0.0, second_ns);
  }
  residents_.solve(machine_.tlb_pages, 0.0);
  add_page_misses(list, 1.0, machine_.page_walk_ns - second_ns);
}

/// Charges the streams for touches of the pages that have left: `ns` and `counted` for each.
void ClassCaches::add_page_misses(const std::vector<Index>& list, double counted, double ns) {
  const SliceProfiles& profiles = instance_.profiles;
  const double* left = residents_.decay();
  for (const Index i : list) {
    const Index t = streams_[i].touched;
    double misses = 0.0;
    for (std::size_t k = profiles.first_page_class[t]; k < profiles.first_page_class[t + 1]; ++k) {
      misses += profiles.pages[k] * profiles.page_rate[k] * *left++;
    }
    misses *= streams_[i].share * streams_[i].part;
    demand_[i].walk_ns += misses * ns;
    demand_[i].dtlb_misses += misses * counted;
  }
}

/// The probability that a line of one class was not touched in the domain for as long as it stays
/// in the private caches.
double ClassCaches::past_private(Index i, std::size_t k) const {
  const Reach& reach = streams_.reach(i);
  if (reach.domain == reach.own) return past_l2_[first_state_[i] + k];
  const double time = private_time_[streams_.physical_of(streams_[i])];
  return coherence_.untouched_in_domain(reach, instance_.row(streams_[i].touched) + k, time);
}

// A victim cache holds what the private caches gave up, for a time of its own after theirs. An
// inclusive one holds what was touched within its time, in a private cache or not.
void ClassCaches::solve_domain(Index domain, double ns_per_unit) {
  const std::vector<Index>& list = streams_.of_domain(domain);
  residents_.start(classes_of(list));
  std::size_t at = 0;
  for (const Index i : list) {
    const Reach& reach = streams_.reach(i);
    const std::size_t n = classes(i);
    double* const lines = residents_.lines() + at;
    enter_lines(i, reach.domain, streams_[i].copies, lines, residents_.rates() + at);
    at += n;
    if (machine_.llc_inclusive) continue;
    if (reach.domain == reach.own) {
      const double* const past = &past_l2_[first_state_[i]];
      for (std::size_t k = 0; k < n; ++k) lines[k] *= past[k];
    } else {
      for (std::size_t k = 0; k < n; ++k) lines[k] *= past_private(i, k);
    }
  }
  domain_time_[domain] =
      residents_.solve_sets(machine_.llc_lines, llc_sets_, passing_per_ns_[domain] * ns_per_unit);
  keep_past_llc(list);
  for (const Index i : list) refresh(i);
}

/// Keeps what the last solution says of each class: whether its lines have left the last level.
void ClassCaches::keep_past_llc(const std::vector<Index>& list) {
  const double* left = residents_.decay();
  for (const Index i : list) {
    const Reach& reach = streams_.reach(i);
    const std::size_t n = classes(i);
    double* const past = &past_llc_[first_state_[i]];
    if (machine_.llc_inclusive) {
      for (std::size_t k = 0; k < n; ++k) past[k] = std::min(past_private(i, k), left[k]);
    } else if (reach.domain == reach.own) {
      const double* const past_l2 = &past_l2_[first_state_[i]];
      for (std::size_t k = 0; k < n; ++k) past[k] = past_l2[k] * left[k];
    } else {
      for (std::size_t k = 0; k < n; ++k) past[k] = past_private(i, k) * left[k];
    }
    left += n;
  }
}

/// What a stream waits for, now that its private cache and its domain are solved.
void ClassCaches::refresh(Index i) {
  const Stream& stream = streams_[i];
  const Reach& reach = streams_.reach(i);
  const std::size_t first = instance_.row(stream.touched);
  const std::size_t n = classes(i);
  Row row{&instance_.waits[first],    &instance_.touches[first],   &instance_.dirty_share[first],
          &past_l2_[first_state_[i]], &past_llc_[first_state_[i]], n};
  demand_[i].other_ns = 0.0;  // where it shares no line any more, too
  if (reach.all > reach.own) {
    std::copy_n(row.past_l2, n, shared_past_l2_.data());
    std::copy_n(row.past_llc, n, shared_past_llc_.data());
    const CacheStay stay{private_time_[streams_.physical_of(stream)],
                         domain_time_[streams_.domain_of(stream)]};
    const double waited_ns = coherence_.share_lines(
        i, stay, owners_wait_[i], {shared_past_l2_.data(), n}, {shared_past_llc_.data(), n});
    demand_[i].other_ns = stream.share * stream.part * waited_ns;
    row.past_l2 = shared_past_l2_.data();
    row.past_llc = shared_past_llc_.data();
  }
  wait_for(i, decay_kernels().sum_row(row));
}

void ClassCaches::past_llc(Index i, std::span<double> past) const {
  // A stream without lines may begin where the states end.
  std::copy_n(past_llc_.data() + first_state_[i], past.size(), past.data());
}

}  // namespace pmoss::analytic
