#include "analytic/coherence.hpp"

#include <algorithm>

namespace pmoss::analytic {
namespace {

/// The probability that a line which `mine` write was touched by `theirs` since, within a time.
double held(double theirs, double mine, double rate, double within) {
  if (theirs <= 0.0) return 0.0;
  const double gone = std::isinf(within) ? 0.0 : exp_of_negative(-(theirs + mine) * rate * within);
  return theirs / (theirs + mine) * (1.0 - gone);
}

}  // namespace

Coherence::OwnersWait Coherence::owners_wait(const Stream& stream) const {
  const Index reader_domain = streams_.domain_of(stream);
  const Index reader = map_.llc_of_core[stream.core];
  const Index home = map_.socket_of_node[stream.node];
  double weights = 0.0, sum = 0.0;
  double near_weights = 0.0, near_sum = 0.0;
  for (const Index other : streams_.touching(stream.touched)) {
    const Stream& o = streams_[other];
    const Index owner_domain = streams_.domain_of(o);
    if (o.node != stream.node) continue;
    const double pace = streams_.reach(other).pace;
    if (owner_domain == reader_domain) {
      if (mesh_.empty()) continue;
      // Those on the reader's own core share its private cache.
      const bool together = streams_.physical_of(o) == streams_.physical_of(stream);
      const double apart = o.share * (o.copies - (together ? o.threads : 0)) * pace;
      if (apart == 0.0) continue;
      near_weights += apart;
      near_sum += apart * mesh_.modified_ns(stream, o);
      continue;
    }
    const double weight = o.share * o.copies * pace;
    double ns = machine_.modified_ns[reader * map_.domains + owner_domain];
    if (home == map_.socket_of_core(stream.core) && home != map_.socket_of_core(o.core)) {
      ns += machine_.modified_home_reader_ns;
    }
    weights += weight;
    sum += weight * std::max(0.0, ns - machine_.l2_ns);
  }
  return {weights > 0.0 ? sum / weights : 0.0, near_weights > 0.0 ? near_sum / near_weights : 0.0};
}

Coherence::Sharing Coherence::sharing_of(Index i, CacheStay stay, const OwnersWait& owners) const {
  const Stream& stream = streams_[i];
  const Reach& reach = streams_.reach(i);
  const Index domain = streams_.domain_of(stream);
  Sharing s{};
  s.own = reach.own;
  s.domain = reach.domain;
  s.all = reach.all;
  s.others = reach.all - reach.domain;
  s.beside = reach.domain - reach.own;
  s.stay = stay;
  s.time = stay.in_private + stay.in_domain;
  s.llc_ns = std::max(0.0, machine_.llc_ns - machine_.l2_ns);
  s.memory_ns = machine_.dram_latency(static_cast<int>(map_.node_of_core[stream.core]),
                                      static_cast<int>(stream.node)) -
                machine_.l2_ns;
  if (!mesh_.empty()) {
    s.llc_ns = std::max(0.0, machine_.llc_ns + mesh_.line_ns(stream) - machine_.l2_ns);
    s.memory_ns += mesh_.line_ns(stream);
  }
  s.other_ns = s.others > 0.0 ? owners.elsewhere : 0.0;
  s.handed_over_ns = std::max(0.0, machine_.modified_ns[domain * map_.domains + domain] +
                                       owners.mesh - machine_.l2_ns - s.llc_ns);
  return s;
}

double Coherence::share_lines(Index i, CacheStay stay, const OwnersWait& owners,
                              std::span<double> past_l2, std::span<double> past_llc) const {
  const Sharing sharing = sharing_of(i, stay, owners);
  const Reach& reach = streams_.reach(i);
  const std::size_t first = instance_.row(streams_[i].touched);
  double waited_ns = 0.0;
  for (std::size_t k = 0; k < past_l2.size(); ++k) {
    share_class(sharing, reach, first + k, past_l2[k], past_llc[k], waited_ns);
  }
  return waited_ns;
}

/// Corrects the probabilities of one class of lines and adds what its touches wait.
void Coherence::share_class(const Sharing& s, const Reach& reach, std::size_t at, double& past_l2,
                            double& past_llc, double& waited_ns) const {
  const double dirty = instance_.dirty_share[at];
  if (dirty == 0.0) {
    past_l2 = std::max(past_l2, past_llc);
    return;
  }
  const double rate = instance_.rates[at];
  // Of the copies that come to the private cache, the part that leaves it by age.
  const double lost = (s.all - s.own) * dirty;
  const double aged = s.own * past_l2;
  past_l2 = (aged + lost) / (s.own + lost);
  double modified = 0.0;  // in another domain
  if (s.others > 0.0) {
    const double writes = s.others * dirty;
    past_llc = (s.domain * past_llc + writes) / (s.domain + writes);
    // The latest of all touches was one of those that wrote, and the line is still there.
    const double cached = std::isinf(s.time) ? 1.0 : 1.0 - exp_of_negative(-s.all * rate * s.time);
    modified = std::min(past_llc, writes / s.all * cached);
  }
  past_l2 = std::max(past_l2, past_llc);
  if (s.beside > 0.0) {
    // Another private cache of the domain holds the line, modified, and the last level does not.
    const double absent =
        (s.domain * untouched_in_domain(reach, at, s.stay.in_private) + s.others * dirty) /
        (s.domain + s.others * dirty);
    const double in_l2 = std::max(0.0, past_l2 - std::max(absent, past_llc));
    // The last level has the line, too, if a third private cache gave it up by age since then.
    const double met = exp_of_negative(-s.domain * rate * std::min(s.stay.in_private, 1e300));
    const double in_llc = 0.5 * (1.0 - met) * aged / (aged + lost + 1e-300);
    const double written = dirty / (dirty + (1.0 - dirty) * past_llc + s.others / s.domain);
    waited_ns += instance_.waits[at] * in_l2 * (1.0 - in_llc) * written * s.handed_over_ns;
  }
  add_waits_of_writers(s, at, past_l2, past_llc, modified, waited_ns);
  waited_ns += instance_.waits[at] * modified * s.other_ns;
  // Neither the last level nor memory serves what is modified elsewhere.
  past_l2 -= modified;
  past_llc -= modified;
}

/// Writers wait until other copies are invalidated. A line that is locked has just been read. Of
/// the other writes, those whose line the private cache lacks wait for it in any case.
void Coherence::add_waits_of_writers(const Sharing& s, std::size_t at, double past_l2,
                                     double past_llc, double modified, double& waited_ns) const {
  const double dirty = instance_.dirty_share[at], rate = instance_.rates[at];
  const double held_beside = held(s.beside, (s.own + s.others) * dirty, rate, s.stay.in_private);
  const double held_elsewhere = held(s.others, s.domain * dirty, rate, s.time);
  const double locks = instance_.locks[at];
  waited_ns +=
      locks * (held_elsewhere * s.other_ns + (1.0 - held_elsewhere) * held_beside * s.llc_ns);
  const double writes = std::max(0.0, instance_.touches[at] * dirty - locks);
  const double in_own = 1.0 - past_l2;
  const double in_domain = past_l2 - past_llc;
  const double from_memory = past_llc - modified;
  waited_ns +=
      writes / machine_.mlp_streaming *
      (held_elsewhere * (in_own * s.other_ns + in_domain * std::max(0.0, s.other_ns - s.llc_ns) +
                         from_memory * std::max(0.0, s.other_ns - s.memory_ns)) +
       (1.0 - held_elsewhere) * held_beside * in_own * s.llc_ns);
}

}  // namespace pmoss::analytic
