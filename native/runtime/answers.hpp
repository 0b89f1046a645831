// Holding the answers of an index that is not ours against the workload, while nothing is measured.
#pragma once

#include "runtime/served_index.hpp"
#include "runtime/threads.hpp"

namespace pmoss::runtime {

/// Lets the index check a sample of its answers, on a thread of its own, so that the caller's poll
/// goes on. Throws RunnerError for an answer that is wrong, and Cancelled. Nothing for our own
/// trees.
void check_answers(ServedIndex& index, const Written& written, const Poll& poll);

}  // namespace pmoss::runtime
