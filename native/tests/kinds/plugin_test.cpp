// Libraries of users behind the runtime; the CMake file here builds some that are wrong on purpose.
#include "kinds/plugin.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "kinds/index_kind.hpp"
#include "kinds/plugin_index.hpp"
#include "numa/affinity.hpp"
#include "numa/topology.hpp"
#include "runtime/errors.hpp"
#include "runtime/runner.hpp"

namespace pmoss::kinds {
namespace {

std::string library(const std::string& name) { return PMOSS_PLUGINS "/" + name + ".so"; }

std::string refusal(const std::string& name) {
  try {
    check_plugin(library(name), {.operations = 5'000, .threads = 2, .seed = 1});
  } catch (const PluginError& error) {
    EXPECT_NE(std::string(error.what()).find(library(name)), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << name << " passed";
  return "";
}

TEST(Plugin, AGoodOnePasses) {
  const auto report =
      check_plugin(library("good"), {.operations = 20'000, .threads = 4, .seed = 3});
  ASSERT_EQ(report.size(), 11u);
  EXPECT_EQ(report[0], "std::map behind one lock");
  EXPECT_EQ(report[4], "erase: of several for one key one wins, for good");
  EXPECT_NE(report[6].find("load_sorted is missing"), std::string::npos);
  EXPECT_EQ(report[7], "open_words is missing: values have 8 bytes");
  EXPECT_NE(report[8].find("visit_memory"), std::string::npos);
}

TEST(Plugin, OneOfLargeValuesPasses) {
  std::uint64_t done = 0, all = 0;
  const auto report = check_plugin(
      library("words"),
      {.operations = 5'000, .threads = 3, .seed = 5, .progress = [&](auto now, auto of) {
         done = now;
         all = of;
       }});
  ASSERT_EQ(report.size(), 11u);
  EXPECT_EQ(report[7],
            "values of 24 and 1024 bytes: every answer as in the models, and none in parts");
  EXPECT_EQ(done, all);
}

TEST(Plugin, ALibraryOfAnEarlierMinorVersionPasses) {
  const auto report = check_plugin(library("minor_0"), {.operations = 2'000, .threads = 2});
  EXPECT_EQ(report[4], "erase is missing: nothing is taken out");
}

TEST(Plugin, OurOwnTreePassesAsALibrary) {
  const auto report = check_plugin(PMOSS_BTREE_PLUGIN, {.operations = 20'000, .threads = 4});
  ASSERT_EQ(report.size(), 11u);
  EXPECT_EQ(report[0], "the B+-tree of pmoss");
  EXPECT_EQ(report[6], "load_sorted: 20000 records in 16 slices, each found");
}

TEST(Plugin, GivenLibrariesPass) {
  // The examples, built as this program is: with its sanitizer.
  const char* const paths = std::getenv("PMOSS_PLUGINS_TO_CHECK");
  if (paths == nullptr) GTEST_SKIP() << "no libraries are named in PMOSS_PLUGINS_TO_CHECK";
  std::istringstream words(paths);
  for (std::string path; std::getline(words, path, ':');) {
    const auto report = check_plugin(path, {.operations = 4'000, .threads = 4, .seed = 7});
    EXPECT_EQ(report.size(), 11u) << path;
    std::printf("CHECKED %s\n", report[0].c_str());
  }
}

TEST(Plugin, WrongOnesAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"other_abi", "version 99"},
      {"too_small", "struct_size"},
      {"no_lookup", "lookup is missing"},
      {"no_index", "open() gives NULL"},
      {"forgets", "at the key"},
      {"wrong_value", "which was never written"},
      {"unsorted", "keys must ascend"},
      {"miscounts", "size() gives"},
      {"fails", "insert() gives -5"},
      {"hides_pages", "tells of no page"},
      {"endless_pages", "no process can have"},
      {"drops_sorted", "after load_sorted(), size() gives"},
      {"refuses_sorted", "load_sorted() gives -12"},
      {"two_steps", "gives 1 to "},
      {"brings_back", "updated and erased at once"},
      {"erases_twice", "erase() gives 1 to "},
      {"old_copies", "which is older than"},
      {"no_extremes", "insert() gives -1 at the key 0"},
      {"negative_record", "bytes_per_record() gives -64"},
      {"words_in_parts", "gives parts of several values"},
      {"words_cut", "or not all 24 bytes of one"},
      {"no_insert_words", "insert_words is missing"},
  };
  for (const auto& [name, words] : wrong) {
    const std::string reason = refusal(name);
    EXPECT_NE(reason.find(words), std::string::npos) << name << ": " << reason;
  }
}

TEST(Plugin, AFileThatIsNoPluginIsRefused) {
  EXPECT_THROW(check_plugin("/nowhere/index.so", {}), PluginError);
  EXPECT_THROW(check_plugin("/proc/self/maps", {}), PluginError);
  EXPECT_THROW(register_plugin("index.so"), std::invalid_argument);
  EXPECT_THROW(register_plugin(""), std::invalid_argument);
}

WorkloadSpec small() {
  WorkloadSpec spec;
  spec.records = 20'000;
  spec.lookup = 0.5;
  spec.insert = 0.2;
  spec.scan = 0.1;
  spec.update = 0.2;
  return spec;
}

runtime::MeasureOptions options(DataPlacement data) {
  runtime::MeasureOptions options;
  options.schedule.cores.assign(16, 0);
  options.schedule.nodes.assign(16, 0);
  options.schedule.data = data;
  options.worker_cpus = {0};
  options.router_cpus = {0};
  options.seconds = 0.1;
  options.warmup_seconds = 0.02;
  return options;
}

/// Measures for longer until queries were served: on a busy host the first time may be over before.
runtime::Measurement served(runtime::Runner& runner, runtime::MeasureOptions asked) {
  while (true) {
    runtime::Measurement result = runner.measure(asked, {});
    if ((result.executed > 0 && result.inserted > 0) || asked.seconds > 60.0) return result;
    asked.seconds *= 4.0;
  }
}

TEST(Plugin, IsServedAndItsPagesAreFound) {
  const IndexKind& kind = kind_named(register_plugin(library("good")));
  EXPECT_EQ(kind_named(register_plugin(library("good"))).name, kind.name);
  const auto runner = make_runner(kind, small(), {.slices = 16});
  runner->load({});
  EXPECT_EQ(runner->index().size(), 20'000u);
  const auto keep = served(*runner, options(DataPlacement::keep));
  EXPECT_GT(keep.executed, 0u);
  EXPECT_EQ(keep.not_found, 0u);
  EXPECT_GT(keep.inserted, 0u);
  if (numa::refused_placement() != 0) GTEST_SKIP() << "this process may not place memory";
  const auto placed = runner->measure(options(DataPlacement::slice), {});
  EXPECT_EQ(placed.in_place, true);
  EXPECT_GT(placed.pages.total(), 100u);
  // The kernel moves pages to one node; it cannot interleave what a library has allocated.
  EXPECT_THROW(runner->measure(options(DataPlacement::interleaved), {}), runtime::PlacementRefused);
}

TEST(Plugin, LargeValuesAreServed) {
  WorkloadSpec large = small();
  large.value_bytes = 1024;
  const IndexKind& kind = kind_named(register_plugin(library("words")));
  const auto runner = make_runner(kind, large, {.slices = 16});
  runner->load({});
  EXPECT_EQ(runner->index().size(), 20'000u);
  const auto result = served(*runner, options(DataPlacement::keep));
  EXPECT_GT(result.executed, 0u);
  EXPECT_EQ(result.not_found, 0u);
  const auto refused = [&](const std::string& name) -> std::string {
    try {
      make_runner(kind_named(register_plugin(library(name))), large, {.slices = 16});
    } catch (const PluginError& error) {
      return error.what();
    }
    return "";
  };
  for (const std::string name : {"good", "minor_0"}) {
    EXPECT_EQ(refused(name),
              "plugin '" + library(name) +
                  "': holds values of 8 bytes, and 1024 are asked for: give it open_words, "
                  "insert_words and update_words of pmoss/index.h, or choose value_bytes = 8");
  }
  // An answer that is not whole ends the measurement.
  const auto cut =
      make_runner(kind_named(register_plugin(library("words_cut"))), large, {.slices = 16});
  EXPECT_THROW(
      {
        cut->load({});
        cut->measure(options(DataPlacement::keep), {});
      },
      std::runtime_error);
}

TEST(Plugin, SlicesComeSortedAndAfterAFailureOnceMore) {
  // Both libraries fail where a slice is loaded so twice, or in another order.
  const auto whole =
      make_runner(kind_named(register_plugin(library("sorted"))), small(), {.slices = 16});
  whole->load({});
  EXPECT_EQ(whole->index().size(), 20'000u);
  const auto twice =
      make_runner(kind_named(register_plugin(library("refuses_sorted"))), small(), {.slices = 16});
  EXPECT_THROW(twice->load({}), runtime::RunnerError);
  twice->load({});
  EXPECT_EQ(twice->index().size(), 20'000u);
  const auto result = served(*twice, options(DataPlacement::keep));
  EXPECT_GT(result.executed, 0u);
  EXPECT_EQ(result.not_found, 0u);
}

TEST(Plugin, WithoutPagesItsDataStayWhereTheyAre) {
  const auto runner =
      make_runner(kind_named(register_plugin(library("hidden"))), small(), {.slices = 16});
  runner->load({});
  EXPECT_GT(served(*runner, options(DataPlacement::keep)).executed, 0u);
  EXPECT_THROW(runner->measure(options(DataPlacement::slice), {}), runtime::PlacementRefused);
}

TEST(Plugin, HiddenDataArePlacedByBoundLoaders) {
  // Large beside what a process gives back meanwhile: its pages are those of all tests.
  WorkloadSpec large = small();
  large.records = 400'000;
  const auto runner =
      make_runner(kind_named(register_plugin(library("hidden"))), large, {.slices = 16});
  const int cpu = numa::allowed_cpus().back();
  const int node = numa::read_topology().find(cpu)->node;
  EXPECT_THROW(runner->load({}, {node}), std::invalid_argument);
  EXPECT_THROW(runner->load({}, std::vector<int>(16, 4711)), runtime::PlacementRefused);
  runner->load({}, std::vector<int>(16, node));
  const runtime::LoadReport report = runner->load_report();
  ASSERT_FALSE(report.loaders.empty());
  for (const runtime::Loader& loader : report.loaders) {
    EXPECT_EQ(loader.node, node);
    EXPECT_EQ(numa::read_topology().find(loader.cpu)->node, node);
  }
  if (report.error_number == 0) {
    EXPECT_GT(report.pages.at(node), 400'000 * 32 / 4096 / 2);
  }
  if (numa::refused_placement() != 0) GTEST_SKIP() << "this process may not place memory";
  runtime::MeasureOptions asked = options(DataPlacement::slice);
  asked.schedule.nodes.assign(16, node);
  EXPECT_GT(served(*runner, asked).executed, 0u);
  // Where it tells its memory, data move after they are loaded.
  const auto tells =
      make_runner(kind_named(register_plugin(library("good"))), small(), {.slices = 16});
  EXPECT_THROW(tells->load({}, std::vector<int>(16, node)), std::invalid_argument);
}

TEST(Plugin, ScansNeedAScan) {
  const IndexKind& kind = kind_named(register_plugin(library("no_scan")));
  EXPECT_THROW(make_runner(kind, small(), {.slices = 16}), std::invalid_argument);
  const auto report = check_plugin(library("no_scan"), {.operations = 5'000, .threads = 2});
  EXPECT_NE(report[5].find("scan is missing"), std::string::npos);
}

TEST(Plugin, ThreadsOfTheRuntimeAttachAndDetachThemselves) {
  // The library counts, and fails an operation of a thread that has not attached.
  const auto runner =
      make_runner(kind_named(register_plugin(library("attached"))), small(), {.slices = 16});
  runner->load({});
  EXPECT_GT(served(*runner, options(DataPlacement::keep)).executed, 0u);
  EXPECT_EQ(check_plugin(library("attached"), {.operations = 5'000, .threads = 3}).size(), 11u);
}

}  // namespace
}  // namespace pmoss::kinds
