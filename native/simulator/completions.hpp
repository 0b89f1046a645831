// Which core finishes next: a tournament over the times at which the cores will be done.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace pmoss::simulator {

class Completions {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  explicit Completions(std::size_t cores) : leaves_(std::bit_ceil(cores)), best_(2 * leaves_) {
    for (std::size_t i = 0; i < leaves_; ++i) best_[leaves_ + i] = {never, i};
    for (std::size_t i = leaves_ - 1; i > 0; --i) best_[i] = best_[2 * i];
  }

  void set(std::size_t core, double time) noexcept {
    Entry winner{time, core};
    best_[leaves_ + core] = winner;
    // Who wins is hard to foresee, so there is no branch on it: masks choose.
    for (std::size_t i = leaves_ + core; i > 1; i /= 2) {
      const Entry& other = best_[i ^ 1];
      const bool other_wins = (other.time < winner.time) | ((other.time == winner.time) & (i & 1));
      winner = chosen(other_wins, other, winner);
      best_[i / 2] = winner;
    }
  }

  /// Of several at the same time, the core with the lowest number.
  std::size_t next() const noexcept { return best_[1].core; }
  double time(std::size_t core) const noexcept { return best_[leaves_ + core].time; }

 private:
  struct Entry {
    double time;
    std::size_t core;
  };

  static Entry chosen(bool first, const Entry& a, const Entry& b) noexcept {
    const std::uint64_t mask = ~(std::uint64_t{first} - 1);
    const auto of_a = std::bit_cast<std::uint64_t>(a.time);
    const auto of_b = std::bit_cast<std::uint64_t>(b.time);
    return {std::bit_cast<double>((of_a & mask) | (of_b & ~mask)),
            (a.core & mask) | (b.core & ~mask)};
  }

  std::size_t leaves_;
  std::vector<Entry> best_;  // a tree: of each node, the core that is done first below it
};

}  // namespace pmoss::simulator
