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

  explicit Completions(std::size_t cores)
      : leaves_(std::bit_ceil(cores)), time_(leaves_, never), winner_(2 * leaves_) {
    for (std::size_t i = 0; i < leaves_; ++i) winner_[leaves_ + i] = static_cast<std::uint32_t>(i);
    for (std::size_t i = leaves_ - 1; i > 0; --i) winner_[i] = winner_[2 * i];
  }

  void set(std::size_t core, double time) noexcept {
    time_[core] = time;
    for (std::size_t i = (leaves_ + core) / 2; i > 0; i /= 2) {
      const std::uint32_t a = winner_[2 * i], b = winner_[2 * i + 1];
      winner_[i] = time_[b] < time_[a] ? b : a;
    }
  }

  /// Of several at the same time, the core with the lowest number.
  std::size_t next() const noexcept { return winner_[1]; }
  double time(std::size_t core) const noexcept { return time_[core]; }

 private:
  std::size_t leaves_;
  std::vector<double> time_;
  std::vector<std::uint32_t> winner_;
};

}  // namespace pmoss::simulator
