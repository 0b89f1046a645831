// Where each recorded line is: what the coherence protocol of the machine knows.
#pragma once

#include <cstdint>

namespace pmoss::simulator {

/// A set of up to 128 cores.
struct CoreSet {
  static constexpr std::size_t capacity = 128;

  std::uint64_t words[2] = {0, 0};

  static constexpr CoreSet of(std::size_t core) noexcept {
    CoreSet set;
    set.words[core / 64] = std::uint64_t{1} << core % 64;
    return set;
  }
  constexpr bool empty() const noexcept { return (words[0] | words[1]) == 0; }
  constexpr CoreSet operator&(const CoreSet& other) const noexcept {
    return {{words[0] & other.words[0], words[1] & other.words[1]}};
  }
  constexpr CoreSet operator|(const CoreSet& other) const noexcept {
    return {{words[0] | other.words[0], words[1] | other.words[1]}};
  }
  constexpr CoreSet without(const CoreSet& other) const noexcept {
    return {{words[0] & ~other.words[0], words[1] & ~other.words[1]}};
  }
};

/// The state of one line. One half of a line of the host's cache.
struct alignas(32) LineState {
  static constexpr std::int16_t clean = -1;
  static constexpr std::size_t max_domains = 64;

  CoreSet sharers;                ///< the physical cores whose L2 holds it
  std::uint64_t domains = 0;      ///< the last-level domains that hold it, a bit each
  std::uint32_t locked_ns = 0;    ///< simulated time at which its node's lock is given back
  std::int16_t modified = clean;  ///< the domain whose copies differ from memory
  std::uint8_t home = 0;          ///< the node whose memory it lies in
  bool in_writers_l2 = false;     ///< modified, and not yet handed over by the L2 that did it
};

}  // namespace pmoss::simulator
