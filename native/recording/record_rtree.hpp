// Recording what the R-tree touches while it serves a workload of points.
#pragma once

#include <cstdint>
#include <memory>

#include "recording/trace.hpp"
#include "workload/points.hpp"

namespace pmoss::recording {

/// Packs the R-tree of the workload's records, its nodes as full as inserts leave them. The records
/// are the same for all instances, see point_of_record(). Runs `options.queries` operations of the
/// instance `spec.seed` on the tree (PointGenerator) and frees it. The slices are the cells of
/// grid_of(slices). A query runs on the core of its cell; a range over several on that of any of
/// these, drawn with the seed. The same arguments give the same bits in every process.
///
/// Throws std::invalid_argument for an impossible argument, a tree that would not fit into the
/// available memory, or too many lines for a trace. Nothing large is allocated before. Throws later
/// if one range touches more lines than a trace can count.
std::shared_ptr<const Trace> record_rtree(const WorkloadSpec& spec, std::uint32_t slices,
                                          const TraceOptions& options);

}  // namespace pmoss::recording
