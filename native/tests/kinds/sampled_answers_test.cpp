// Wrong answers of a library: a sample is held against the workload, outside of what is measured.
#include "kinds/sampled_answers.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kinds/index_kind.hpp"
#include "kinds/plugin.hpp"
#include "runtime/errors.hpp"
#include "runtime/runner.hpp"

namespace pmoss::kinds {
namespace {

/// Reads alone, unless others are added.
WorkloadSpec reading() {
  WorkloadSpec spec;
  spec.records = 20'000;
  return spec;
}

std::unique_ptr<runtime::Runner> runner_of(const std::string& fault, const WorkloadSpec& spec) {
  const std::string path = PMOSS_PLUGINS "/" + fault + ".so";
  return make_runner(kind_named(register_plugin(path)), spec, {.slices = 16});
}

void measure(runtime::Runner& runner) {
  runtime::MeasureOptions options;
  options.schedule.cores.assign(16, 0);
  options.worker_cpus = {0};
  options.router_cpus = {0};
  options.seconds = 0.05;
  options.warmup_seconds = 0.01;
  runner.measure(options, {});
}

/// What stops the loading, or the measurement after it; empty if nothing does.
std::string refused_load(const std::string& fault, const WorkloadSpec& spec) {
  try {
    runner_of(fault, spec)->load({});
  } catch (const runtime::RunnerError& error) {
    return error.what();
  }
  return "";
}

std::string refused_measurement(const std::string& fault, const WorkloadSpec& spec) {
  const auto runner = runner_of(fault, spec);
  runner->load({});
  try {
    measure(*runner);
  } catch (const runtime::RunnerError& error) {
    return error.what();
  }
  return "";
}

void expect(const std::string& reason, const std::string& words) {
  EXPECT_NE(reason.find(words), std::string::npos) << words << " is not in: " << reason;
}

TEST(SampledAnswers, WrongLookupsAreFoundOnceTheIndexIsLoaded) {
  expect(refused_load("finds_nothing", reading()), "lookup() does not find the key");
  expect(refused_load("forgets", reading()), "which was loaded: expected the value");
  expect(refused_load("one_more", reading()), "which was never written: expected");
  expect(refused_load("wrong_value", reading()), "gives the value 17, which was never written");
  expect(refused_load("finds_anything", reading()), "expected nothing");
}

TEST(SampledAnswers, OnlyWhatTheWorkloadDoesIsChecked) {
  for (const char* const fault : {"scans_with_a_gap", "forgets_updates", "forgets_inserts"}) {
    EXPECT_EQ(refused_load(fault, reading()), "") << fault;
    EXPECT_EQ(refused_measurement(fault, reading()), "") << fault;
  }
}

TEST(SampledAnswers, ScansAreComplete) {
  WorkloadSpec spec = reading();
  spec.lookup = spec.scan = 0.5;
  expect(refused_load("scans_with_a_gap", spec), "scan() from the key");
  EXPECT_EQ(refused_load("good", spec), "");
}

TEST(SampledAnswers, UpdatesAreRead) {
  WorkloadSpec spec = reading();
  spec.lookup = spec.update = 0.5;
  expect(refused_load("forgets_updates", spec), "after an update: expected");
}

/// What the sample of a good index says after queries that have gone so.
std::string refused_after(const runtime::Written& written) {
  const std::string path = PMOSS_PLUGINS "/good.so";
  PluginIndex index(std::make_shared<const PluginLibrary>(path), {.slices = 1});
  const WorkloadSpec spec = reading();
  std::vector<std::uint64_t> keys;
  for (std::uint64_t record = 0; record < spec.records; ++record) {
    keys.push_back(spec.space.key(record, spec.seed));
  }
  index.load(keys);
  SampledAnswers answers(spec, 1);
  answers.note(0, keys);
  try {
    answers.check(index, written, [] { return false; });
  } catch (const PluginError& error) {
    return error.what();
  }
  return "";
}

TEST(SampledAnswers, QueriesThatMissARecordAreCounted) {
  EXPECT_EQ(refused_after({.next_insert_record = 20'000}), "");
  expect(refused_after({.next_insert_record = 20'000, .not_found = 3}), "3 lookups and updates");
}

TEST(SampledAnswers, InsertsAreCounted) {
  EXPECT_EQ(refused_after({.next_insert_record = 20'000, .size = 20'000}), "");
  expect(refused_after({.next_insert_record = 20'007, .size = 20'007}),
         "size() gives 20000 after the inserts: expected 20007");
}

TEST(SampledAnswers, WhatEarlierRunsHaveWrittenIsNoMistake) {
  WorkloadSpec spec = reading();
  spec.lookup = 0.25;
  spec.insert = spec.scan = spec.update = 0.25;
  for (const char* const fault : {"good", "sorted"}) {
    const auto runner = runner_of(fault, spec);
    runner->load({});
    for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(measure(*runner)) << fault;
  }
}

TEST(SampledAnswers, FewRecordsInFewSlicesAreEnough) {
  WorkloadSpec spec = reading();
  spec.records = 3;
  EXPECT_EQ(refused_load("good", spec), "");
  expect(refused_load("finds_nothing", spec), "does not find the key");
}

}  // namespace
}  // namespace pmoss::kinds
