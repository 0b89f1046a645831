// What every kind of index must do, and the registry that knows them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kinds/index_kind.hpp"
#include "numa/memory.hpp"
#include "tests/runtime/small_runner.hpp"
#include "workload/random.hpp"

namespace pmoss::kinds {
namespace {

using runtime::options_for;
using runtime::slices;

/// A mix that indexes on keys and on points both take.
WorkloadSpec mixed(double insert = 0.2) {
  WorkloadSpec spec = runtime::small_spec(0.8 - insert, insert, 0.2, 0);
  spec.distribution = Distribution::uniform;
  spec.max_scan_length = 10;
  return spec;
}

recording::TraceOptions few() {
  return {.queries = 4'000, .line_sampling = 1, .page_sampling = 1, .seed = 3};
}

std::vector<std::uint32_t> touched(const recording::Trace& trace) {
  std::vector<std::uint32_t> lines;
  for (const recording::Touch touch : trace.touches) lines.push_back(touch.line());
  return lines;
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const IndexKind* const kind : all_kinds()) result.push_back(kind->name);
  return result;
}

class RunnerOfKind : public testing::TestWithParam<std::string> {
 protected:
  const IndexKind& kind() const { return kind_named(GetParam()); }
};

TEST_P(RunnerOfKind, HoldsWhatWasLoadedAndInsertedWhileAllDataMove) {
  const auto runner = make_runner(kind(), mixed(), {slices, false, {}}, 2);
  runner->load();
  EXPECT_EQ(runner->index().slices(), slices);
  EXPECT_EQ(runner->index().size(), runner->spec().records);
  const int node = numa::memory_nodes().front();
  std::uint64_t inserted = 0;
  for (const auto strategy :
       {runtime::MigrationStrategy::copy, runtime::MigrationStrategy::move_pages}) {
    for (const std::uint32_t batch : {1U, 16U}) {
      runtime::MeasureOptions options = options_for(runtime::LoadKind::closed);
      options.batch = batch;
      options.migration = {strategy, runtime::MigrationPace::aggressive, 16, true};
      options.schedule.data = DataPlacement::slice;
      options.schedule.nodes.assign(slices, node);
      const runtime::Measurement result = runner->measure(options);
      runtime::expect_consistent(result, options);
      EXPECT_TRUE(result.in_place);
      EXPECT_EQ(result.migration.slices, slices);
      EXPECT_GT(result.inserted, 0U);
      EXPECT_NE(result.checksum, 0U);
      inserted += result.inserted;
    }
  }
  EXPECT_EQ(runner->index().size(), runner->spec().records + inserted);
}

TEST_P(RunnerOfKind, RefusesMoreRecordsThanMemoryBeforeItTakesAny) {
  WorkloadSpec spec = mixed();
  spec.records = std::uint64_t{1} << 38;
  const auto runner = make_runner(kind(), spec, {slices, false, {}}, 2);
  try {
    runner->load();
    ADD_FAILURE() << "loaded";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("274877906944 records"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("fewer records"), std::string::npos);
  }
  EXPECT_EQ(runner->index().size(), 0U);
}

TEST_P(RunnerOfKind, SendsEveryQueryToItsOwnSliceOrOneThatItReads) {
  const auto index = kind().serve(mixed(), {slices, false, {}});
  const auto stream = index->stream(1, mixed().records, 1);
  const runtime::SliceOfKey slice_of_key = index->slice_of_key();
  for (int i = 0; i < 500; ++i) {
    const Operation operation = stream->next();
    const runtime::Candidates candidates = stream->candidates(operation);
    std::vector<std::uint32_t> among;
    for (std::uint32_t n = 0; n < candidates.count(); ++n) {
      among.push_back(candidates.at(n));
      ASSERT_LT(among.back(), slices);
    }
    const std::uint32_t own = slice_of_key(operation.key);
    EXPECT_NE(std::find(among.begin(), among.end(), own), among.end());
    EXPECT_TRUE(operation.kind == Operation::Kind::scan || among.size() == 1);
  }
}

TEST_P(RunnerOfKind, IsRecordedWithTheSameBitsEachTime) {
  const auto trace = kind().record(mixed(), 16, few());
  EXPECT_EQ(trace->size(), few().queries);
  EXPECT_EQ(trace->slices, 16U);
  EXPECT_EQ(touched(*trace), touched(*kind().record(mixed(), 16, few())));
  EXPECT_THROW(kind().record(mixed(), 0, few()), std::invalid_argument);
}

TEST_P(RunnerOfKind, HasProfilesWhoseSharesSumToOne) {
  const Profiler profiler = kind().make_profiler(mixed(), 16, few());
  for (const std::uint64_t seed : {1U, 2U}) {
    const analytic::SliceProfiles profiles = profiler(seed);
    EXPECT_EQ(profiles.slices, 16);
    ASSERT_EQ(profiles.share.size(), 16U);
    EXPECT_NEAR(std::accumulate(profiles.share.begin(), profiles.share.end(), 0.0), 1.0, 1e-9);
    EXPECT_EQ(profiles.first_class.size(), 17U);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RunnerOfKind, testing::ValuesIn(names()),
                         [](const auto& each) { return each.param; });

TEST(RunnerKinds, AreFoundByNameAndOthersAreRefused) {
  const std::vector<std::string> all_names = names();
  EXPECT_TRUE(std::is_sorted(all_names.begin(), all_names.end()));
  for (const std::string& name : all_names) EXPECT_EQ(kind_named(name).name, name);
  try {
    kind_named("heap");
    ADD_FAILURE() << "found";
  } catch (const std::invalid_argument& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("index is 'heap'"), std::string::npos) << what;
    for (const std::string& name : all_names) EXPECT_NE(what.find(name), std::string::npos) << what;
  }
}

TEST(RunnerKinds, OneOfOthersIsServedRecordedAndProfiled) {
  const IndexKind& own = kind_named(names().front());
  const Registration registration{{.name = "zz_of_others",
                                   .title = "index of others",
                                   .records = own.records,
                                   .usual_workload = own.usual_workload,
                                   .serve = own.serve,
                                   .record = own.record}};
  const IndexKind& kind = kind_named("zz_of_others");
  EXPECT_FALSE(kind.profiled_by_formulas);
  const auto runner = make_runner(kind, mixed(), {slices, false, {}}, 1);
  runner->load();
  EXPECT_EQ(runner->index().size(), mixed().records);
  // Without a profiler of its own, each instance is recorded.
  const Profiler profiler = kind.make_profiler(mixed(), 16, few());
  EXPECT_EQ(profiler(1).lines, profiler(1).lines);
  EXPECT_NE(profiler(1).lines, profiler(2).lines);
  EXPECT_THROW(register_kind(kind), std::invalid_argument);
  IndexKind nameless = kind;
  nameless.name = "";
  EXPECT_THROW(register_kind(std::move(nameless)), std::invalid_argument);
  IndexKind idle = kind;
  idle.name = "idle";
  idle.serve = {};
  EXPECT_THROW(register_kind(std::move(idle)), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss::kinds
