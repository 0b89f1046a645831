#include "analytic/trace_profile.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <stdexcept>

#include "analytic/btree_profile.hpp"
#include "recording/record.hpp"
#include "tests/analytic/small_workload.hpp"

namespace pmoss::analytic {
namespace {

constexpr int slices = 16;

WorkloadSpec workload(double lookup, double insert, double scan, Distribution distribution) {
  WorkloadSpec w;
  w.lookup = lookup;
  w.insert = insert;
  w.scan = scan;
  w.distribution = distribution;
  w.records = 1'000'000;
  w.seed = 5;
  return w;
}

struct Totals {
  double dependent = 0, streaming = 0, instructions = 0, branch_misses = 0;
  double touches = 0, written = 0, lines = 0, pages = 0, page_touches = 0;
  /// Lines touched per query that were not touched in the last so many queries.
  double missed(const SliceProfiles& p, double queries) const {
    double sum = 0.0;
    for (std::size_t k = 0; k < p.classes(); ++k) {
      sum += p.lines[k] * p.line_rate[k] * std::exp(-p.line_rate[k] * queries);
    }
    return sum;
  }
};

Totals totals(const SliceProfiles& p) {
  Totals t;
  for (std::size_t s = 0; s < static_cast<std::size_t>(p.slices); ++s) {
    t.dependent += p.share[s] * p.dependent_touches[s];
    t.streaming += p.share[s] * p.streaming_touches[s];
    t.instructions += p.share[s] * p.instructions[s];
    t.branch_misses += p.share[s] * p.branch_misses[s];
  }
  for (std::size_t k = 0; k < p.classes(); ++k) {
    t.touches += p.lines[k] * p.line_rate[k];
    t.written += p.lines[k] * p.line_rate[k] * p.dirty_share[k];
    t.lines += p.lines[k];
  }
  for (std::size_t k = 0; k < p.page_classes(); ++k) {
    t.pages += p.pages[k];
    t.page_touches += p.pages[k] * p.page_rate[k];
  }
  return t;
}

struct Case {
  const char* name;
  double lookup, insert, scan;
  Distribution distribution;
};

class FormulaAgainstTrace : public ::testing::TestWithParam<Case> {};

TEST_P(FormulaAgainstTrace, AgreeWithinAFewPercent) {
  const Case& c = GetParam();
  const WorkloadSpec spec = workload(c.lookup, c.insert, c.scan, c.distribution);
  const SliceProfiles formula = BTreeProfiler(spec, slices).profiles(spec.seed);
  const SliceProfiles traced = profile_trace(*recording::record_btree(spec, slices, every_touch()));
  const Totals f = totals(formula), t = totals(traced);
  EXPECT_NEAR(f.dependent / t.dependent, 1.0, 0.01);
  EXPECT_NEAR(f.streaming / t.streaming, 1.0, 0.04);
  EXPECT_NEAR(f.instructions / t.instructions, 1.0, 0.03);
  EXPECT_NEAR(f.branch_misses, t.branch_misses, 0.02 * t.branch_misses);
  EXPECT_NEAR(f.touches / t.touches, 1.0, 0.10);
  EXPECT_NEAR(f.page_touches / t.page_touches, 1.0, 0.10);
  if (c.insert > 0.0) {
    EXPECT_NEAR(f.written / t.written, 1.0, 0.10);
  }
  for (const double queries : {100.0, 1000.0, 10'000.0}) {
    // The far tail of Zipf's popular records, taken as even, shows in what is touched least.
    EXPECT_NEAR(f.missed(formula, queries) / t.missed(traced, queries), 1.0,
                queries < 5000.0 ? 0.08 : 0.16)
        << queries;
  }
  for (std::size_t s = 0; s < slices; ++s) {
    EXPECT_NEAR(formula.share[s], traced.share[s], 0.05 * formula.share[s] + 0.002) << s;
  }
}

INSTANTIATE_TEST_SUITE_P(Workloads, FormulaAgainstTrace,
                         ::testing::Values(Case{"ycsb_a", 0.5, 0.5, 0.0, Distribution::zipf},
                                           Case{"lookups", 1.0, 0.0, 0.0, Distribution::uniform},
                                           Case{"zipf", 1.0, 0.0, 0.0, Distribution::zipf},
                                           Case{"scans", 0.0, 0.0, 1.0, Distribution::zipf},
                                           Case{"hot_range", 0.5, 0.5, 0.0,
                                                Distribution::hot_range}),
                         [](const auto& info) { return info.param.name; });

/// A trace of one line per slice; each query of slice s touches lines s and, if that is another
/// one's, s + 1.
recording::Trace two_slices(int queries) {
  recording::Trace trace;
  trace.slices = 2;
  trace.slice_of_line = {0, 1};
  trace.address_page_of_line = {0, 1};
  trace.slice_of_page = {0, 1};
  trace.address_page_of_page = {0, 1};
  trace.bytes_of_slice = {4096, 4096};
  for (int q = 0; q <= queries; ++q) {
    recording::TracedQuery query{};
    query.first_touch = trace.touches.size();
    query.first_page = trace.page_touches.size();
    query.slice = static_cast<std::uint16_t>(q % 2);
    query.instructions = 100;
    query.dependent = 2;
    trace.queries.push_back(query);
    if (q == queries) break;
    if (q % 2 == 0) trace.touches.emplace_back(0, false, false, false);
    trace.touches.emplace_back(1, q % 2 == 1, true, false);
    trace.page_touches.push_back(static_cast<std::uint32_t>(q % 2));
  }
  return trace;
}

TEST(TraceProfile, KnowsWhoTouchesWhoseLines) {
  const SliceProfiles p = profile_trace(two_slices(1000));
  ASSERT_EQ(p.shared.size(), 1u);
  EXPECT_EQ(p.shared[0].executing, 0);
  EXPECT_EQ(p.shared[0].touched, 1);
  EXPECT_NEAR(p.shared[0].share, 0.5, 1e-12);
  EXPECT_NEAR(p.share[0], 0.5, 1e-12);
  EXPECT_EQ(p.instructions[1], 100.0);
  EXPECT_EQ(p.dependent_touches[1], 2.0);
  const std::size_t first = p.first_class[1];
  double touches = 0.0, written = 0.0;
  for (std::size_t k = first; k < p.first_class[2]; ++k) {
    touches += p.lines[k] * p.line_rate[k];
    written += p.lines[k] * p.line_rate[k] * p.dirty_share[k];
  }
  EXPECT_NEAR(touches, 1.0, 1e-9);
  EXPECT_NEAR(written, 0.5, 1e-9);
}

TEST(TraceProfile, RefusesAnEmptyTrace) {
  EXPECT_THROW(profile_trace(recording::Trace{}), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::analytic
