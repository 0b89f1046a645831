// The profile of one slice of the B+-tree, from the shape of its part of the tree and what its
// records are asked for.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "analytic/profile.hpp"
#include "index/operation_cost.hpp"
#include "workload/generator.hpp"

namespace pmoss::analytic {

/// Part of a slice's records that is asked for more than its share.
struct HotBand {
  double part;  // of the slice's records
  double mass;  // of all choices of a record
};

/// The hottest records by rank: class b holds ranks 4^b to 4^(b+1) - 1, each in a leaf of its own.
inline constexpr std::size_t hot_classes = 8;
struct HotClass {
  double mass = 0;  // of all choices of a record
  double keys = 0;
};

/// Which records of a slice are asked for.
struct SlicePopularity {
  double tail = 0;                                 // of all choices, shared by all records evenly
  std::array<HotClass, hot_classes> hottest = {};  // in this slice
  std::span<const HotBand> bands;
};

/// What queries of one kind cost in a slice.
struct KindWork {
  OperationCost cost;
  double fixed, run;  // see query_work(): without the lines that come in runs, and of these
};

/// The leaves and inner nodes of a slice, and the lines that operations touch in them. The same in
/// all instances.
struct SliceShape {
  /// `record_share`: of all records.
  SliceShape(const WorkloadSpec& workload, double record_share);

  double record_share;
  double leaves;
  std::vector<double> inner_nodes;  // per level, from the lowest; the last one is the slice's root
  double data_lines;                // of a leaf: keys, then values
  double shifted_lines;             // that an insert moves beyond those that it has read
  double fresh_lines, split_lines;  // per insert: written to new nodes, and read from old ones
  double mean_scan;                 // records
  double scanned_lines;             // beyond those of a lookup
  double height;
  OperationCost worker;           // for each query
  std::array<KindWork, 4> kinds;  // lookups, updates, inserts, scans

 private:
  std::array<KindWork, 4> work_of_kinds() const;
};

class BTreeSlice {
 public:
  /// `slices`: of the whole tree. The other arguments must outlive this object.
  BTreeSlice(const WorkloadSpec& workload, const SliceShape& shape,
             const SlicePopularity& popularity, int slices);

  /// Appends the slice to the profiles.
  void add_to(SliceProfiles& profiles) const;

 private:
  /// Queries of each kind, per query of the workload.
  struct Queries {
    double lookups, updates, scans;  // of records that are chosen by popularity
    double inserts;
  };
  /// Lines of hot records are met by all other operations, too; some belong to several hot records.
  struct HotLeaves {
    double data_lines;     // that an operation on a hot record touches in its leaf
    double headers, data;  // lines per hot record, as shares of what one alone would have
    double other_headers, other_data;  // shares of the lines that hold no hot record
    double visits, data_visits;        // of a leaf, by operations on all records alike
  };

  /// The share of a kind of operation among those that choose a record by popularity.
  double share_of(double kind) const { return popular_ > 0.0 ? kind / popular_ : 0.0; }
  HotLeaves hot_leaves() const;
  void add_hot_records(SliceProfiles& profiles, const HotLeaves& hot) const;
  void add_hot_class(SliceProfiles& profiles, const HotLeaves& hot, const HotClass& records) const;
  void add_leaves(SliceProfiles& profiles, const HotLeaves& hot) const;
  void add_leaves_of(SliceProfiles& profiles, const HotLeaves& hot, double part,
                     double asked) const;
  void add_inner_nodes(SliceProfiles& profiles) const;
  void add_touches(SliceProfiles& profiles) const;
  void add_work(SliceProfiles& profiles) const;

  const WorkloadSpec& workload_;
  const SliceShape& shape_;
  const SlicePopularity& popularity_;
  int slices_;
  double popular_;        // probability that an operation chooses an existing record
  double hot_share_ = 0;  // probability that a query goes to one of the hottest records,
  double even_;           // to a record as to any other,
  double cold_;           // to one of these or of a hot band
  double share_;          // to the slice
  Queries queries_;
};

}  // namespace pmoss::analytic
