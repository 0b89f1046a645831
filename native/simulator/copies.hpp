// Data that follow slices to other nodes while queries run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "machine/machine.hpp"
#include "simulator/contention.hpp"

namespace pmoss::simulator {

/// One copy after the other, each by one thread of the target's node. As many lines are in flight
/// as the processor fetches ahead. Each takes the latency that memories and links have at present,
/// of reading from afar or of writing beside, whichever is longer. So queries slow the copy, and
/// the copy slows queries.
class Copies {
 public:
  /// `machine` must outlive it; `line_sampling`: a recorded line stands for so many.
  Copies(const Machine& machine, std::uint32_t line_sampling)
      : machine_(&machine), line_sampling_(line_sampling) {}

  /// `bytes` may be infinite: a copy that never ends. A limit of 0 is none.
  void add(std::int32_t slice, int source, int target, double bytes) {
    queue_.push_back({slice, source, target, bytes});
  }
  void limit(double most_gb_per_s) {
    most_ = most_gb_per_s > 0.0 ? most_gb_per_s : std::numeric_limits<double>::infinity();
  }
  void clear() {
    queue_.clear();
    copied_ = carried_ = 0.0;
  }

  struct Arrived {
    std::int32_t slice;
    int node;
  };
  /// Copies for `ns` at the latencies of now, and adds what that moves to the traffic. Returns the
  /// slices whose data are there.
  std::vector<Arrived> advance(double ns, Contention& contention);

  bool empty() const { return queue_.empty(); }
  std::size_t size() const { return queue_.size(); }
  double copied_bytes() const { return copied_; }

 private:
  struct Copy {
    std::int32_t slice;
    int source, target;
    double bytes;  // left
  };

  const Machine* machine_;
  std::uint32_t line_sampling_;
  std::deque<Copy> queue_;
  double most_ = std::numeric_limits<double>::infinity();  // GB/s
  double copied_ = 0, carried_ = 0;  // bytes; the latter are no whole recorded line yet
};

}  // namespace pmoss::simulator
