// The solver for schedules under which every line is touched on one core only: all that it asks of
// a slice has been tabulated over the time that lines stay.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analytic/caches.hpp"
#include "analytic/slice_tables.hpp"

namespace pmoss::analytic {

class TableCaches final : public Caches {
 public:
  explicit TableCaches(const CacheInputs& inputs);

  void set_instance() override;
  void start() override;
  void solve_core(Index physical) override;
  void solve_domain(Index domain, double ns_per_unit) override;
  PastSums past_sums(Index stream) const override;
  void past_llc(Index stream, std::span<double> past) const override;

 private:
  /// past_sums() of lines that left the last level at these points. Most streams keep their points
  /// from one change to the next, and sums over exponentials cost more than all else of a snapshot.
  struct KnownPast {
    std::array<double, 2> left{NAN, NAN};  // unlike any
    PastSums sums;
  };
  struct CoreTimes {
    double pace = 1, offset = 0;            // and its logarithm, in points of the tables
    TablePosition left_l2;                  // when lines leave the private cache
    std::array<TablePosition, 2> left_llc;  // and the last level: crowded and sparse sets
    std::array<double, 2> left_llc_point;
    TablePosition now;  // scratch space of lines_in_domain()
    double now_slope = 1;
  };
  /// What the streams of a physical core hold and touch together.
  struct CoreSums {
    double pace = 0;  // of the first stream; times are in its units
    bool one_pace = true;
    double lines = 0, line_touches = 0, pages = 0, page_touches = 0;
  };
  /// What the streams of a domain hold together.
  struct DomainSums {
    double all = 0;       // lines
    double beside = 0;    // of these, those in private caches, where the last level has no copies
    double inserted = 0;  // lines that come to the last level, per unit of time
    double passing = 0;   // those of co-tenants
  };

  CoreSums sum_core(const std::vector<Index>& streams);
  template <typename SumAt>
  double leave(const std::vector<Index>& streams, const CoreSums& sums, double room, double all,
               double touches, double& start, SumAt sum_at) const;
  void translate(Index stream, const CoreTimes& times, double left_first,
                 const TablePosition& first, double left_second, const TablePosition& second);
  DomainSums sum_domain(const std::vector<Index>& streams);
  TableSum lines_in_domain(const std::vector<Index>& streams, const DomainSums& sums, double at);
  double point_of_leaving(Index core, double time) const;
  void wait_for_domain(const std::vector<Index>& streams);

  SliceTables tables_;
  std::vector<CoreTimes> times_;                       // per core
  std::vector<std::array<double, 3>> search_start_;    // per physical core: L2, two TLBs
  std::vector<std::array<double, 2>> left_llc_point_;  // per stream
  mutable std::vector<KnownPast> known_past_;          // per stream
  // Scratch space of solve_domain().
  std::vector<Index> domain_cores_;
  std::array<TableSum, SliceTables::points> domain_sum_{};
  std::array<std::uint8_t, SliceTables::points> domain_sum_known_{};
};

}  // namespace pmoss::analytic
