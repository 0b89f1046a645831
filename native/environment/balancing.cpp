#include "environment/balancing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "environment/checks.hpp"

namespace pmoss::environment {
namespace {

/// A change must shorten the longest time by this share to count as one.
constexpr double least_gain = 1e-5;
constexpr double never = std::numeric_limits<double>::infinity();

/// The later of two times; NaN if one is NaN, so that an unknown time is never chosen.
double later(double a, double b) { return a < b || std::isnan(b) ? b : a; }

/// Where a slice of the fullest core may go, and when the two cores that take part would end.
struct Change {
  double ends = 0.0;
  std::size_t slice = 0;
  std::size_t to = 0;  // the core of a move; the other slice of an exchange
};

/// Slices on cores, and when each core ends.
class Balance {
 public:
  Balance(const SliceTimes& times, std::span<std::int64_t> chosen)
      : times_(times), chosen_(chosen), load_(times.cores), count_(times.cores) {
    for (std::size_t s = 0; s < chosen.size(); ++s) {
      load_[core_of(s)] += times.at(s, core_of(s));
      ++count_[core_of(s)];
    }
  }

  /// One change; false if none helps.
  bool improve(std::size_t max_per_core) {
    if (std::ranges::any_of(load_, [](double end) { return std::isnan(end); })) return false;
    const auto fullest = std::ranges::max_element(load_);
    const auto full = static_cast<std::size_t>(fullest - load_.begin());
    sort_out(full);
    const double enough = *fullest * (1 - least_gain);
    const Change move = best_move(full, max_per_core, enough);
    const Change swap = best_exchange(full, move.ends);
    if (swap.ends < move.ends) {
      const std::size_t other_core = core_of(swap.to);
      put(swap.to, other_core, full);
      put(swap.slice, full, other_core);
    } else if (move.ends < enough) {
      put(move.slice, full, move.to);
    } else {
      return false;
    }
    return true;
  }

 private:
  /// A slice of another core than the fullest one.
  struct Other {
    std::size_t slice;
    std::size_t core;
    double at_full;  // what it takes on the fullest core
    double left;     // when its core ends without it
  };

  std::size_t core_of(std::size_t slice) const { return static_cast<std::size_t>(chosen_[slice]); }

  void sort_out(std::size_t full) {
    mine_.clear();
    others_.clear();
    for (std::size_t s = 0; s < chosen_.size(); ++s) {
      const std::size_t core = core_of(s);
      if (core == full) {
        mine_.push_back(s);
      } else {
        others_.push_back({s, core, times_.at(s, full), load_[core] - times_.at(s, core)});
      }
    }
  }

  /// The first of the moves that end earliest, if they end before a time.
  Change best_move(std::size_t full, std::size_t max_per_core, double before) const {
    Change best{before, 0, 0};
    for (const std::size_t s : mine_) {
      const double left = load_[full] - times_.at(s, full);
      if (left >= best.ends) continue;
      for (std::size_t core = 0; core < times_.cores; ++core) {
        if (core == full || (max_per_core != 0 && count_[core] >= max_per_core)) continue;
        const double ends = later(left, load_[core] + times_.at(s, core));
        if (ends < best.ends) best = {ends, s, core};
      }
    }
    return best;
  }

  /// The first of the exchanges that end earliest, if they end before a time.
  Change best_exchange(std::size_t full, double before) const {
    Change best{before, 0, 0};
    for (const std::size_t s : mine_) {
      const double left = load_[full] - times_.at(s, full);
      if (left >= best.ends) continue;
      for (const Other& other : others_) {
        const double there = other.left + times_.at(s, other.core);
        const double ends = later(left + other.at_full, there);
        if (ends < best.ends) best = {ends, s, other.slice};
      }
    }
    return best;
  }

  void put(std::size_t slice, std::size_t from, std::size_t to) {
    load_[to] += times_.at(slice, to);
    load_[from] -= times_.at(slice, from);
    --count_[from];
    ++count_[to];
    chosen_[slice] = static_cast<std::int64_t>(to);
  }

  SliceTimes times_;
  std::span<std::int64_t> chosen_;
  std::vector<double> load_;
  std::vector<std::size_t> count_;
  std::vector<std::size_t> mine_;  // slices of the fullest core
  std::vector<Other> others_;
};

}  // namespace

std::vector<std::int64_t> place_in_order(const SliceTimes& times,
                                         std::span<const std::int64_t> order,
                                         std::size_t max_per_core) {
  check_length("order", order.size(), times.slices());
  std::vector<std::int64_t> chosen(times.slices(), -1);
  std::vector<double> load(times.cores);
  std::vector<std::size_t> count(times.cores);
  for (const std::int64_t slice : order) {
    const auto s = static_cast<std::size_t>(slice);
    if (slice < 0 || s >= chosen.size() || chosen[s] >= 0) {
      refuse("order: slice " + std::to_string(slice) + ": must name each slice once");
    }
    std::size_t best = 0;
    double earliest = never;
    for (std::size_t core = 0; core < times.cores; ++core) {
      const bool is_full = max_per_core != 0 && count[core] >= max_per_core;
      const double ends = is_full ? never : load[core] + times.at(s, core);
      if (ends < earliest) {
        earliest = ends;
        best = core;
      }
    }
    chosen[s] = static_cast<std::int64_t>(best);
    load[best] += times.at(s, best);
    ++count[best];
  }
  return chosen;
}

void balance(const SliceTimes& times, std::size_t max_per_core, int changes,
             std::span<std::int64_t> chosen) {
  check_length("start", chosen.size(), times.slices());
  for (const std::int64_t core : chosen) {
    if (core < 0 || static_cast<std::size_t>(core) >= times.cores) {
      refuse("start: core " + std::to_string(core) + " does not exist");
    }
  }
  if (chosen.empty()) return;
  Balance state(times, chosen);
  for (int change = 0; change < changes && state.improve(max_per_core); ++change) {
  }
}

}  // namespace pmoss::environment
