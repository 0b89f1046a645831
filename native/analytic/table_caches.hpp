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
  };
  /// What is asked of the core of every stream in a domain.
  struct Mark {
    std::uint64_t state = 0;  // another one whenever the private cache is solved; see held_
    Index in_domain = 0;      // among `domain_cores_`
  };
  /// What a stream has in its private cache, and brings to the last level.
  struct InPrivate {
    double lines = 0;     // all that it has anywhere
    double beside = 0;    // in the private cache, where the last level has no copies
    double inserted = 0;  // that come to the last level, per unit of time
    double waits = 0;     // of touches of what has left the private cache
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
  template <typename SumAt, typename Need>
  Bracket leave(const std::vector<Index>& streams, const CoreSums& sums, double room,
                double touches, double start, SumAt sum_at, Need need);
  std::array<double, 3> leave_core(Index physical, const CoreSums& sums);
  void translate(Index stream, const CoreTimes& times, double left_first,
                 const TablePosition& first, double left_second, const TablePosition& second);
  void leave_private(const std::vector<Index>& streams);
  DomainSums sum_domain(const std::vector<Index>& streams, std::uint64_t solved);
  TableSum lines_in_domain(Index domain, const DomainSums& sums, double at);
  void add_lines_anew(TableSum& total, double time);
  double time_before(Index core) const;
  void hold(Index domain, std::size_t point, TableSum* held);
  void leave_domain(const std::array<double, 2>& stays);
  void wait_for_domain(const std::vector<Index>& streams);
  void mix_rows(double share);

  SliceTables tables_;
  std::vector<CoreTimes> times_;                       // per core
  std::vector<Mark> marks_;                            // likewise
  std::vector<std::array<double, 3>> search_start_;    // per physical core: L2, two TLBs
  std::vector<std::array<double, 2>> left_llc_point_;  // per stream
  mutable std::vector<KnownPast> known_past_;          // per stream
  mutable std::vector<double> crowded_past_;           // scratch space of past_llc()
  std::vector<InPrivate> in_private_;                  // per stream
  // [point % held_points][stream]: the lines that a stream holds in its domain at a point of the
  // tables. They stay the same until the private cache of its core is solved anew. The last level
  // looks at a few points near each other.
  static constexpr std::size_t held_points = 8;
  std::vector<TableSum> held_;
  std::uint64_t state_ = 0;  // the last one that was given to a core
  /// A point at which the lines of a domain's streams are held, and `state_` at that time.
  struct HeldAt {
    std::size_t point = SliceTables::points;
    std::uint64_t state = 0;
  };
  std::vector<std::array<HeldAt, held_points>> held_at_;  // per domain
  std::vector<std::uint64_t> solved_state_;               // likewise: when it was solved last
  /// Lines of a stream on a core.
  struct Part {
    Index slice = 0;
    double part = 0;
  };
  std::vector<Part> core_parts_;  // scratch space of solve_core()
  // Scratch space of solve_domain().
  std::vector<Index> domain_cores_;
  struct DomainStream {
    Index slice, core;  // the latter among `domain_cores_`
    double part;
  };
  /// Where in the tables a core is at the point that is looked at.
  struct Now {
    std::size_t point = SliceTables::points;
    TablePosition at;
    double slope = 1;
    // Logarithms of its times at the points of a block, which cost little more than one.
    std::size_t block = SliceTables::points;
    std::array<double, held_points> logs{};
  };
  const Now& look(Index in_domain, std::size_t point);
  std::vector<DomainStream> domain_streams_;
  std::vector<Index> fresh_;          // of these, those on cores that are new to the domain
  std::vector<Now> domain_now_;       // per core of the domain
  std::vector<double> stays_;         // likewise
  std::vector<MixedRow> mixed_rows_;  // per stream of a core or a domain
  std::vector<double> mixed_;         // [stream][mixed_sums]
  std::array<TableSum, SliceTables::points> domain_sum_{};
  std::array<std::uint8_t, SliceTables::points> domain_sum_known_{};
};

}  // namespace pmoss::analytic
