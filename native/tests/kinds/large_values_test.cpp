// Values of more than a word: whole in every read, and on the node of their slice.
#include "kinds/large_values.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kinds/index_kind.hpp"
#include "kinds/served_rtree.hpp"
#include "numa/memory.hpp"
#include "tests/runtime/small_runner.hpp"
#include "workload/points.hpp"

namespace pmoss::kinds {
namespace {

using runtime::slices;

class LargeValues : public testing::TestWithParam<std::uint32_t> {
 protected:
  static WorkloadSpec spec() {
    // Without inserts: on a slow host, they would fill a node while its slices move.
    WorkloadSpec mix = runtime::small_spec(0.5, 0, 0.1, 0.4);
    mix.records = 5'000;
    mix.value_bytes = GetParam();
    return mix;
  }
  static BTreeOfValues::Options few_slices() {
    return {{.slices = 4, .huge_pages = false}, GetParam()};
  }
};

TEST_P(LargeValues, OfRecordsAreFoundUpdatedAndScanned) {
  BTreeOfValues tree(few_slices());
  const std::vector<std::uint64_t> keys{1, 5, std::uint64_t{1} << 62, ~std::uint64_t{0}};
  tree.bulk_load(0, 4, keys, keys, 1);
  EXPECT_EQ(tree.size(), keys.size());
  EXPECT_TRUE(tree.insert(7, 70));
  EXPECT_FALSE(tree.insert(5, 50));
  EXPECT_TRUE(tree.update(1, 10));
  EXPECT_FALSE(tree.update(2, 20));
  std::uint64_t value = 0;
  EXPECT_FALSE(tree.lookup(2, value));
  for (const auto& [key, expected] : {std::pair<std::uint64_t, std::uint64_t>{1, 10},
                                      {5, 50},
                                      {7, 70},
                                      {~std::uint64_t{0}, ~std::uint64_t{0}}}) {
    EXPECT_TRUE(tree.lookup(key, value));
    EXPECT_EQ(value, expected);
  }
  std::vector<std::uint64_t> found_keys(3), values(3);
  EXPECT_EQ(tree.scan(EpochGuard(), 2, 3, found_keys.data(), values.data()), 3U);
  EXPECT_EQ(found_keys, (std::vector<std::uint64_t>{5, 7, std::uint64_t{1} << 62}));
  EXPECT_EQ(values, (std::vector<std::uint64_t>{50, 70, std::uint64_t{1} << 62}));
}

TEST_P(LargeValues, AreWholeWhileTwoThreadsWriteThem) {
  BTreeOfValues tree(few_slices());
  tree.insert(1, 0);
  constexpr std::uint64_t writes = 5'000;
  std::atomic<unsigned> writers{2};
  std::vector<std::jthread> threads;
  for (std::uint64_t writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::uint64_t i = 0; i < writes; ++i) tree.update(1, 2 * i + writer);
      --writers;
    });
  }
  // Of each writer, what is read grows.
  std::uint64_t last[2] = {0, 0};
  while (writers > 0) {
    std::uint64_t value = 0;
    ASSERT_TRUE(tree.lookup(1, value));
    ASSERT_LT(value, 2 * writes);
    EXPECT_GE(value, last[value % 2]);
    last[value % 2] = value;
  }
}

TEST_P(LargeValues, LieOnTheNodeOfTheirSliceAndMoveWithIt) {
  if (const int refused = numa::refused_placement(); refused != 0) {
    GTEST_SKIP() << numa::explain_memory_error(refused);
  }
  const auto runner = runtime::small_runner(spec());
  runner->load();
  runtime::MeasureOptions options = runtime::options_for(runtime::LoadKind::closed);
  options.batch = 16;
  options.schedule.data = DataPlacement::slice;
  options.migration.pace = runtime::MigrationPace::aggressive;
  const std::vector<int> nodes = numa::memory_nodes();
  for (std::size_t turn = 0; turn < 3; ++turn) {
    options.schedule.nodes.clear();
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      options.schedule.nodes.push_back(nodes[(slice + turn) % nodes.size()]);
    }
    const runtime::Measurement result = runner->measure(options);
    runtime::expect_consistent(result, options);
    EXPECT_TRUE(result.in_place);
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      const runtime::SlicePlacement& placement = result.slice_placements[slice];
      EXPECT_EQ(placement.home, placement.pages) << "slice " << slice;
    }
    // The values alone take so many pages.
    EXPECT_GE(result.pages.total() * 4096, runner->spec().records * GetParam());
  }
  EXPECT_EQ(runner->index().size(), runner->spec().records);
  const auto& tree = dynamic_cast<const ServedValues&>(runner->index()).tree();
  for (std::uint64_t record = 0; record < runner->spec().records; ++record) {
    const std::uint64_t key = runner->spec().space.key(record, runner->spec().seed);
    std::uint64_t value = 0;
    ASSERT_TRUE(tree.lookup(key, value)) << record;
    // An update adds the number of its worker's queries.
    EXPECT_LT(value - key, std::uint64_t{1} << 32) << record;
  }
}

TEST_P(LargeValues, OfInsertedRecordsAreThereAfterARun) {
  WorkloadSpec mix = spec();
  mix.lookup = 0.3;
  mix.insert = 0.2;
  const auto runner = runtime::small_runner(mix);
  runner->load();
  runtime::MeasureOptions options = runtime::options_for(runtime::LoadKind::closed);
  options.batch = 16;
  const runtime::Measurement result = runner->measure(options);
  runtime::expect_consistent(result, options);
  EXPECT_EQ(runner->index().size(), mix.records + result.inserted);
}

TEST_P(LargeValues, OfPointsAreWholeAndLieOnTheNodeOfTheirSlice) {
  WorkloadSpec mix = runtime::small_spec(0.4, 0.2, 0.4, 0);
  mix.distribution = Distribution::uniform;
  mix.space.kind = KeySpace::Kind::clustered;
  mix.records = 5'000;
  mix.value_bytes = GetParam();
  const auto runner = runtime::small_runner(mix, 2, "rtree");
  runner->load();
  runtime::MeasureOptions options = runtime::options_for(runtime::LoadKind::closed);
  options.batch = 16;
  if (numa::refused_placement() == 0) {
    options.schedule.data = DataPlacement::slice;
    options.migration.pace = runtime::MigrationPace::aggressive;
    const std::vector<int> nodes = numa::memory_nodes();
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      options.schedule.nodes.push_back(nodes[slice % nodes.size()]);
    }
  }
  const runtime::Measurement result = runner->measure(options);
  runtime::expect_consistent(result, options);
  EXPECT_TRUE(result.in_place);
  EXPECT_EQ(runner->index().size(), mix.records + result.inserted);
  const auto& tree = dynamic_cast<const ServedRTreeOfValues&>(runner->index()).tree();
  for (std::uint64_t record = 0; record < mix.records; ++record) {
    const Point point = point_of_record(mix.space.kind, record);
    const Rectangle range{point.x, point.y, point.x, point.y};
    std::vector<std::uint64_t> values;
    std::size_t end = 0;
    tree.find_batch({&range, 1}, values, &end);
    ASSERT_GE(end, 1U) << record;
    // A value that is torn is another one.
    for (const std::uint64_t value : values) EXPECT_EQ(value, packed(point)) << record;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LargeValues, testing::Values(16, 104, 1024));

TEST(ValuesOfEightBytes, AreWhatModelsAndOtherIndexesKnow) {
  WorkloadSpec spec = runtime::small_spec(0.5, 0.5, 0, 0);
  for (const std::uint32_t wrong : {0U, 7U, 12U, 1032U}) {
    spec.value_bytes = wrong;
    EXPECT_THROW(runtime::small_runner(spec), std::invalid_argument) << wrong;
  }
  spec.value_bytes = 64;
  EXPECT_THROW(kind_named("btree").record(spec, slices, {}), std::invalid_argument);
  EXPECT_THROW(kind_named("rtree").record(spec, slices, {}), std::invalid_argument);
  EXPECT_THROW(kind_named("btree").make_profiler(spec, slices, {}), std::invalid_argument);
  IndexKind words = kind_named("btree");
  words.large_values = false;
  try {
    make_runner(words, spec, {slices, false, {}}, 1);
    ADD_FAILURE() << "an index of words takes large values";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("value_bytes is 64"), std::string::npos);
  }
}

}  // namespace
}  // namespace pmoss::kinds
