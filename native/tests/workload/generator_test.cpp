// Streams of operations against the description they are drawn from.
#include "workload/generator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/workload/chi_square.hpp"
#include "workload/keyspace.hpp"

namespace pmoss {
namespace {

using Kind = Operation::Kind;

std::vector<Operation> draw(const WorkloadSpec& spec, std::size_t n, std::uint64_t stream = 1) {
  OperationGenerator generator(spec, stream, spec.records, 1);
  std::vector<Operation> operations;
  for (std::size_t i = 0; i < n; ++i) operations.push_back(generator.next());
  return operations;
}

TEST(OperationGenerator, MixFitsTheFractions) {
  WorkloadSpec spec;
  spec.lookup = 0.4;
  spec.insert = 0.05;
  spec.scan = 0.25;
  spec.update = 0.3;
  spec.records = 1000;
  std::vector<std::uint64_t> observed(4);
  for (const auto& operation : draw(spec, 200'000)) {
    ++observed[static_cast<std::size_t>(operation.kind)];
  }
  testing::expect_fit(observed, {0.4, 0.05, 0.25, 0.3});
}

TEST(OperationGenerator, DrawsNothingWithFractionZero) {
  for (const Kind only : {Kind::lookup, Kind::insert, Kind::scan, Kind::update}) {
    WorkloadSpec spec;
    spec.lookup = only == Kind::lookup ? 1.0 : 0.0;
    spec.insert = only == Kind::insert ? 1.0 : 0.0;
    spec.scan = only == Kind::scan ? 1.0 : 0.0;
    spec.update = only == Kind::update ? 1.0 : 0.0;
    for (const auto& operation : draw(spec, 10'000)) ASSERT_EQ(operation.kind, only);
  }
}

TEST(OperationGenerator, AReadModifyWriteIsALookupAndAnUpdateOfTheSameKey) {
  WorkloadSpec spec;
  spec.lookup = 0.5;
  spec.read_modify_write = 0.5;
  spec.records = 1000;
  const std::vector<Operation> operations = draw(spec, 90'000);
  std::vector<std::uint64_t> observed(4);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    ++observed[static_cast<std::size_t>(operations[i].kind)];
    if (operations[i].kind != Kind::update) continue;
    ASSERT_EQ(operations[i - 1].kind, Kind::lookup);
    ASSERT_EQ(operations[i - 1].key, operations[i].key);
  }
  const WorkloadSpec mix = by_operations(spec);
  EXPECT_DOUBLE_EQ(mix.lookup, 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(mix.update, 1.0 / 3.0);
  EXPECT_EQ(mix.read_modify_write, 0.0);
  EXPECT_NO_THROW(validate(mix));
  EXPECT_DOUBLE_EQ(main_share(spec), 2.0 / 3.0);
  EXPECT_NEAR(static_cast<double>(observed[static_cast<std::size_t>(Kind::update)]), 30'000, 600);
}

TEST(OperationGenerator, TheLatestRecordsAreHotAndNewOnesTakeTheirPlace) {
  WorkloadSpec spec;
  spec.lookup = 0.5;
  spec.insert = 0.5;
  spec.distribution = Distribution::latest;
  spec.records = 1000;
  constexpr std::uint64_t clients = 3, mine = 1;
  OperationGenerator generator(spec, 1, spec.records + mine, clients);
  std::unordered_map<std::uint64_t, std::uint64_t> record_of;
  for (std::uint64_t record = 0; record < 20'000; ++record) {
    record_of[key_of_record(record, spec.seed)] = record;
  }
  std::uint64_t inserted = 0;
  std::map<std::uint64_t, std::size_t> rank_of_reads;
  for (int i = 0; i < 8'000; ++i) {
    const Operation operation = generator.next();
    const std::uint64_t record = record_of.at(operation.key);
    if (operation.kind == Kind::insert) {
      ASSERT_EQ(record, spec.records + mine + inserted++ * clients);
      continue;
    }
    if (inserted < OperationGenerator::unread_inserts) {
      ASSERT_LT(record, spec.records);
      continue;
    }
    // Its own records, but for the last ones, and loaded ones.
    const std::uint64_t readable = inserted - OperationGenerator::unread_inserts;
    if (record >= spec.records) {
      ASSERT_EQ((record - spec.records - mine) % clients, 0U);
      const std::uint64_t own = (record - spec.records - mine) / clients;
      ASSERT_LT(own, readable);
      ++rank_of_reads[readable - 1 - own];
    } else {
      ++rank_of_reads[readable + spec.records - 1 - record];
    }
  }
  EXPECT_LT(rank_of_reads.rbegin()->first, spec.records);
  EXPECT_GT(rank_of_reads[0], rank_of_reads[9] * 4);
  EXPECT_GT(rank_of_reads[0], 200U);
}

TEST(OperationGenerator, ScanLengthsAreUniformFromOne) {
  WorkloadSpec spec;
  spec.lookup = 0.5;
  spec.scan = 0.5;
  spec.max_scan_length = 100;
  std::vector<std::uint64_t> observed(100);
  for (const auto& operation : draw(spec, 200'000)) {
    if (operation.kind != Kind::scan) {
      ASSERT_EQ(operation.scan_length, 0u);
      continue;
    }
    ASSERT_GE(operation.scan_length, 1u);
    ASSERT_LE(operation.scan_length, 100u);
    ++observed[operation.scan_length - 1];
  }
  testing::expect_uniform(observed);
}

TEST(OperationGenerator, UniformReadsChooseEveryRecordEquallyOften) {
  WorkloadSpec spec;
  spec.records = 500;
  spec.seed = 3;
  std::unordered_map<std::uint64_t, std::size_t> record_of;
  for (std::size_t r = 0; r < 500; ++r) record_of[key_of_record(r, 3)] = r;
  std::vector<std::uint64_t> observed(500);
  for (const auto& operation : draw(spec, 100'000)) ++observed[record_of.at(operation.key)];
  testing::expect_uniform(observed);
}

TEST(OperationGenerator, ZipfReadsFitScrambledZipf) {
  // Few records and many ranks: most of the mass arrives through the scattered tail. Each record
  // gets its own rank's share and an equal part of the tail. The scattering is as uneven as a hash,
  // which is far below the noise here.
  WorkloadSpec spec;
  spec.distribution = Distribution::zipf;
  spec.records = 100;
  spec.zipf_items = 1'000'000'000;
  std::unordered_map<std::uint64_t, std::size_t> record_of;
  for (std::size_t r = 0; r < 100; ++r) record_of[key_of_record(r, 0)] = r;
  const double all = zeta(spec.zipf_items, spec.theta);
  std::vector<double> probabilities(100);
  // The tail's head is not spread evenly, so its ranks are followed one by one.
  constexpr std::uint64_t followed = 3'000'000;
  const double rest = 1.0 - zeta(followed, spec.theta) / all;
  for (auto& p : probabilities) p = rest / 100.0;
  for (std::uint64_t rank = 0; rank < followed; ++rank) {
    const std::uint64_t record = rank < 100 ? rank : scale64(mix64(rank), 100);
    probabilities[record] += std::pow(static_cast<double>(rank + 1), -spec.theta) / all;
  }
  std::vector<std::uint64_t> observed(100);
  for (const auto& operation : draw(spec, 200'000)) ++observed[record_of.at(operation.key)];
  testing::expect_fit(observed, probabilities);
}

TEST(OperationGenerator, HotRangesFitTheirShares) {
  for (const auto kind : {KeySpace::Kind::scattered, KeySpace::Kind::clustered}) {
    WorkloadSpec spec;
    spec.distribution = Distribution::hot_range;
    spec.space.kind = kind;
    spec.records = 20'000;
    spec.hot_share = 0.8;
    spec.hot_fraction = 0.1;
    spec.seed = 9;
    // Brute force: which records lie in the range.
    std::unordered_map<std::uint64_t, std::size_t> record_of;
    const HotRange range = hot_range(spec, 0);
    std::vector<bool> hot(spec.records);
    std::size_t inside = 0;
    for (std::size_t r = 0; r < spec.records; ++r) {
      record_of[spec.space.key(r, spec.seed)] = r;
      hot[r] = range.holds(spec.space.position(r, spec.seed));
      inside += hot[r] ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(inside), 2000.0, 5.0 * std::sqrt(1800.0));
    std::vector<double> probabilities(spec.records);
    for (std::size_t r = 0; r < spec.records; ++r) {
      probabilities[r] = 0.2 / 20'000.0 + (hot[r] ? 0.8 / static_cast<double>(inside) : 0.0);
    }
    std::vector<std::uint64_t> observed(spec.records);
    for (const auto& operation : draw(spec, 1'000'000)) ++observed[record_of.at(operation.key)];
    testing::expect_fit(observed, probabilities);
  }
}

TEST(OperationGenerator, SharesOfTheHotRangeAgreeWithACount) {
  WorkloadSpec spec;
  spec.distribution = Distribution::hot_range;
  spec.records = 400'000;
  spec.hot_fraction = 0.2;
  for (const auto kind : {KeySpace::Kind::scattered, KeySpace::Kind::clustered}) {
    spec.space.kind = kind;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {  // some of these ranges go round the end
      spec.seed = seed;
      const HotRange range = hot_range(spec, 0);
      std::vector<double> counted(48);
      double inside = 0.0;
      for (std::uint64_t r = 0; r < spec.records; ++r) {
        if (!range.holds(spec.space.position(r, seed))) continue;
        counted[slice_of_key(spec.space.key(r, seed), 48)] += 1.0;
        inside += 1.0;
      }
      const std::vector<double> shares = hot_range_shares(spec, 48);
      double total = 0.0;
      for (std::size_t slice = 0; slice < 48; ++slice) {
        const double p = shares[slice];
        total += p;
        ASSERT_NEAR(counted[slice] / inside, p, 5.0 * std::sqrt(p / inside) + 5.0 / inside);
      }
      EXPECT_NEAR(total, 1.0, 1e-9);
    }
  }
}

TEST(OperationGenerator, AHotRangeDriftsAtItsSpeedAndComesRound) {
  WorkloadSpec spec;
  spec.distribution = Distribution::hot_range;
  spec.drift = 0.25;
  const auto moved = [&](std::uint64_t choices) {
    const std::uint64_t by = hot_range(spec, choices).first - hot_range(spec, 0).first;
    return static_cast<double>(by) * 0x1.0p-64;
  };
  EXPECT_NEAR(moved(1'000'000), 0.25, 1e-12);
  EXPECT_NEAR(moved(3'000'000), 0.75, 1e-12);
  EXPECT_NEAR(moved(5'000'000), 0.25, 1e-12);
  spec.drift = 0.0;
  EXPECT_EQ(moved(5'000'000), 0.0);
}

TEST(OperationGenerator, ManyClientsMoveTheHotRangeTogether) {
  WorkloadSpec spec;
  spec.distribution = Distribution::hot_range;
  spec.records = 50'000;
  spec.hot_share = 1.0;
  spec.drift = 50.0;
  constexpr std::uint64_t clients = 10;
  OperationGenerator generator(spec, 0, spec.records, clients);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(hot_range(spec, i * clients).holds(generator.next().key));
  }
}

TEST(OperationGenerator, HottestKeyHasYcsbsShare) {
  WorkloadSpec spec;
  spec.distribution = Distribution::zipf;
  std::uint64_t hits = 0;
  constexpr std::uint64_t draws = 200'000;
  for (const auto& operation : draw(spec, draws)) hits += operation.key == key_of_record(0, 0);
  const double p = 1.0 / 26.469;
  const double deviation = std::sqrt(p * (1.0 - p) / draws);
  EXPECT_NEAR(static_cast<double>(hits) / draws, p, 5.0 * deviation);
}

TEST(OperationGenerator, SeedDecidesWhichKeysAreHot) {
  WorkloadSpec spec;
  spec.distribution = Distribution::zipf;
  spec.records = 1000;
  std::set<std::uint64_t> hottest;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    spec.seed = seed;
    std::map<std::uint64_t, int> counts;
    for (const auto& operation : draw(spec, 5000)) ++counts[operation.key];
    const auto top =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    EXPECT_EQ(top->first, key_of_record(0, seed));
    hottest.insert(slice_of_key(top->first, 256));
  }
  EXPECT_GT(hottest.size(), 10u);
}

TEST(OperationGenerator, InsertsTakeFreshRecordsAndClientsDoNotMeet) {
  WorkloadSpec spec;
  spec.lookup = 0.5;
  spec.insert = 0.5;
  spec.records = 1000;
  std::set<std::uint64_t> keys;
  for (std::uint64_t r = 0; r < spec.records; ++r) keys.insert(key_of_record(r, spec.seed));
  const std::set<std::uint64_t> loaded = keys;
  constexpr std::uint64_t clients = 3;
  std::uint64_t inserts = 0;
  for (std::uint64_t client = 0; client < clients; ++client) {
    OperationGenerator generator(spec, client, spec.records + client, clients);
    std::uint64_t expected = spec.records + client;
    for (int i = 0; i < 5000; ++i) {
      const Operation operation = generator.next();
      if (operation.kind == Kind::lookup) {
        ASSERT_TRUE(loaded.contains(operation.key));
        continue;
      }
      ASSERT_EQ(operation.key, key_of_record(expected, spec.seed));
      expected += clients;
      ++inserts;
      keys.insert(operation.key);
    }
  }
  EXPECT_EQ(keys.size(), spec.records + inserts);
}

TEST(OperationGenerator, SameSeedsSameStreamOtherSeedsOtherStreams) {
  WorkloadSpec spec;
  spec.distribution = Distribution::zipf;
  const auto keys_of = [](const std::vector<Operation>& operations) {
    std::vector<std::uint64_t> keys;
    for (const auto& operation : operations) keys.push_back(operation.key);
    return keys;
  };
  const auto reference = keys_of(draw(spec, 1000, 1));
  EXPECT_EQ(keys_of(draw(spec, 1000, 1)), reference);
  EXPECT_NE(keys_of(draw(spec, 1000, 2)), reference);
  spec.seed = 1;
  EXPECT_NE(keys_of(draw(spec, 1000, 1)), reference);
}

TEST(OperationGenerator, TheStreamNeverChanges) {
  // Recorded once: a change here breaks every dataset that is to be regenerated bit by bit.
  WorkloadSpec spec;
  spec.lookup = 0.25;
  spec.insert = 0.25;
  spec.scan = 0.25;
  spec.update = 0.25;
  spec.distribution = Distribution::zipf;
  spec.seed = 11;
  std::uint64_t digest = 0;
  for (const auto& o : draw(spec, 10'000, 5)) {
    digest = mix64(digest ^ o.key) + o.scan_length + static_cast<std::uint64_t>(o.kind);
  }
  EXPECT_EQ(digest, 5670882154061171319ull);
}

std::string complaint_of(const WorkloadSpec& spec) {
  try {
    validate(spec);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(WorkloadSpec, ComplaintsNameTheValueAndWhatIsRight) {
  WorkloadSpec spec;
  EXPECT_EQ(complaint_of(spec), "");

  spec.lookup = 0.5;
  EXPECT_EQ(complaint_of(spec),
            "lookup + insert + scan + update + read_modify_write is 0.500000; it must be 1");
  spec.insert = -0.5;
  EXPECT_EQ(complaint_of(spec), "insert is -0.500000; it must lie in [0, 1]");
  spec.insert = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(complaint_of(spec), "");

  spec = {};
  spec.records = 0;
  EXPECT_EQ(complaint_of(spec), "records is 0; it must be at least 1");

  spec = {};
  spec.max_scan_length = 0;
  EXPECT_EQ(complaint_of(spec), "");
  spec.lookup = 0.0;
  spec.scan = 1.0;
  EXPECT_NE(complaint_of(spec).find("max_scan_length is 0"), std::string::npos);

  spec = {};
  spec.theta = 0.0;
  EXPECT_EQ(complaint_of(spec), "");  // says nothing to a uniform workload
  spec.distribution = Distribution::zipf;
  EXPECT_NE(complaint_of(spec).find("theta is 0.0"), std::string::npos);
  spec.theta = 0.99;
  spec.zipf_items = 0;
  EXPECT_NE(complaint_of(spec).find("zipf_items is 0"), std::string::npos);

  spec = {};
  spec.records = std::uint64_t{1} << 39;
  EXPECT_NE(complaint_of(spec).find("records is 549755813888"), std::string::npos);
  spec = {};
  spec.space.kind = KeySpace::Kind::file;
  EXPECT_NE(complaint_of(spec).find("a file without keys"), std::string::npos);

  spec = {};
  spec.distribution = Distribution::hot_range;
  spec.hot_share = 1.1;
  EXPECT_NE(complaint_of(spec).find("hot_share is 1.1"), std::string::npos);
  spec.hot_share = 0.9;
  spec.hot_fraction = 0.7;
  EXPECT_NE(complaint_of(spec).find("hot_fraction is 0.7"), std::string::npos);
  spec.hot_fraction = 0.01;
  spec.records = 1000;
  EXPECT_NE(complaint_of(spec).find("hot_fraction * records is 10.0"), std::string::npos);
  spec = {};
  spec.distribution = Distribution::hot_range;
  spec.drift = -1.0;
  EXPECT_NE(complaint_of(spec).find("drift is -1.0"), std::string::npos);

  spec = {};
  spec.distribution = static_cast<Distribution>(7);
  EXPECT_NE(complaint_of(spec).find("distribution is 7"), std::string::npos);
}

TEST(OperationGenerator, RefusesNonsense) {
  WorkloadSpec spec;
  spec.records = 100;
  EXPECT_THROW(OperationGenerator(spec, 0, 99, 1), std::invalid_argument);
  EXPECT_THROW(OperationGenerator(spec, 0, 100, 0), std::invalid_argument);
  spec.lookup = 2.0;
  EXPECT_THROW(OperationGenerator(spec, 0, 100, 1), std::invalid_argument);
}

}  // namespace
}  // namespace pmoss
