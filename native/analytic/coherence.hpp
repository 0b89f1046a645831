// What happens to lines that several cores touch and some of them write.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "analytic/caches.hpp"
#include "analytic/fast_exp.hpp"

namespace pmoss::analytic {

/// How long a line stays after its last touch: in a private cache, and then in the domain.
struct CacheStay {
  double in_private, in_domain;
};

class Coherence {
 public:
  explicit Coherence(const CacheInputs& inputs)
      : machine_(inputs.machine),
        map_(inputs.map),
        mesh_(inputs.mesh),
        instance_(inputs.instance),
        streams_(inputs.streams) {}

  /// What a touch waits for a line that other cores modified, beyond the private cache. Each is the
  /// mean over the owners.
  struct OwnersWait {
    double elsewhere = 0;  ///< in another domain
    double mesh = 0;       ///< in the own domain: what its mesh adds
    bool operator==(const OwnersWait&) const = default;
  };

  /// Corrects one row of the probabilities that lines have left the caches by age. With writers on
  /// other cores, a line has left when it stayed too long or was invalidated. What another domain
  /// wrote last is fetched from there, and writers wait until other copies are gone. Returns what
  /// the row's touches wait for lines that were modified elsewhere, in ns. `owners`: what
  /// owners_wait() gives for the stream.
  double share_lines(Index stream, CacheStay stay, const OwnersWait& owners,
                     std::span<double> past_l2, std::span<double> past_llc) const;

  OwnersWait owners_wait(const Stream& stream) const;

  /// The probability that no core of the domain has touched a line for `time`. `at`: position of
  /// the line's class in the rows of the instance.
  double untouched_in_domain(const Reach& reach, std::size_t at, double time) const {
    if (std::isinf(time)) return 0.0;
    const double touches = reach.domain + (reach.all - reach.domain) * instance_.dirty_share[at];
    return exp_of_negative(-instance_.rates[at] * touches * time);
  }

 private:
  /// What all classes of a stream's row have in common.
  struct Sharing {
    double own, domain, all;  // touches; see Reach
    double beside;            // by other private caches of the domain
    double others;            // by other domains
    CacheStay stay;
    double time;  // in the private cache and the domain together
    // What a touch waits beyond the private cache.
    double llc_ns, memory_ns;
    double other_ns;        // for a line that was modified in another domain
    double handed_over_ns;  // more than llc_ns, from another private cache of the domain
  };
  Sharing sharing_of(Index stream, CacheStay stay, const OwnersWait& owners) const;
  void share_class(const Sharing& sharing, const Reach& reach, std::size_t at, double& past_l2,
                   double& past_llc, double& waited_ns) const;
  void add_waits_of_writers(const Sharing& sharing, std::size_t at, double past_l2, double past_llc,
                            double modified, double& waited_ns) const;

  const Machine& machine_;
  const CoreMap& map_;
  const MeshMap& mesh_;
  const Instance& instance_;
  const StreamSet& streams_;
};

}  // namespace pmoss::analytic
