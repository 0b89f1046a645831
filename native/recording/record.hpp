// Recording what the index code touches while it serves a workload.
#pragma once

#include <cstdint>
#include <memory>

#include "recording/trace.hpp"
#include "workload/generator.hpp"

namespace pmoss::recording {

/// Builds the B+-tree of the instance `spec.seed`, as full as random inserts leave it, runs
/// `options.queries` operations on it and frees it. A query runs on the core of its key's slice; a
/// scan on that of any slice that it reads from, drawn with the seed. The same arguments give the
/// same bits in every process.
///
/// Throws std::invalid_argument for an impossible argument, a tree that would not fit into the
/// available memory, or too many lines for a trace. Nothing large is allocated before. Throws later
/// if one scan touches more lines than a trace can count.
std::shared_ptr<const Trace> record_btree(const WorkloadSpec& spec, std::uint32_t slices,
                                          const TraceOptions& options);

}  // namespace pmoss::recording
