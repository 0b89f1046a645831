// The map of records to keys and of keys to slices, and the raw generator below everything.
#include "workload/keyspace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/workload/chi_square.hpp"

namespace pmoss {
namespace {

constexpr std::uint64_t last_key = std::numeric_limits<std::uint64_t>::max();

TEST(Keyspace, SliceAndFirstKeyAgreeAtEveryBoundary) {
  for (const std::uint32_t slices :
       {1u, 2u, 3u, 5u, 7u, 8u, 48u, 100u, 255u, 256u, 257u, 1000u, 4096u, 65535u, 65536u}) {
    EXPECT_EQ(first_key_of_slice(0, slices), 0u);
    EXPECT_EQ(slice_of_key(0, slices), 0u);
    EXPECT_EQ(slice_of_key(last_key, slices), slices - 1);
    for (std::uint32_t slice = 1; slice < slices; ++slice) {
      const std::uint64_t first = first_key_of_slice(slice, slices);
      ASSERT_EQ(slice_of_key(first, slices), slice) << slices << " slices";
      ASSERT_EQ(slice_of_key(first - 1, slices), slice - 1) << slices << " slices";
    }
  }
}

TEST(Keyspace, RecordsInOrderHaveAscendingKeysFromAPlaceThatTheSeedChooses) {
  constexpr std::uint64_t records = 1000;
  for (const auto kind : {KeySpace::Kind::scattered, KeySpace::Kind::clustered}) {
    KeySpace space{kind};
    space.in_order = records;
    std::vector<std::uint64_t> firsts;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      int falls = 0;
      std::vector<std::uint64_t> keys;
      for (std::uint64_t record = 0; record < records; ++record) {
        keys.push_back(space.key(record, seed));
        if (record > 0 && keys[record] <= keys[record - 1]) ++falls;
      }
      EXPECT_LE(falls, 1);  // where they go round the end
      firsts.push_back(keys[0]);
      std::sort(keys.begin(), keys.end());
      EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
      // The others are where they are without any in order.
      EXPECT_EQ(space.key(records, seed), KeySpace{kind}.key(records, seed));
    }
    std::sort(firsts.begin(), firsts.end());
    EXPECT_EQ(std::adjacent_find(firsts.begin(), firsts.end()), firsts.end());
  }
}

TEST(Keyspace, SlicesAreEquallyWide) {
  for (const std::uint32_t slices : {3u, 48u, 256u, 1000u}) {
    const std::uint64_t width = last_key / slices;
    for (std::uint32_t slice = 0; slice + 1 < slices; ++slice) {
      const std::uint64_t got =
          first_key_of_slice(slice + 1, slices) - first_key_of_slice(slice, slices);
      ASSERT_LE(got > width ? got - width : width - got, 1u);
    }
  }
}

/// The inverse of mix64(), step by step: that it exists is the proof that no two records share a
/// key.
std::uint64_t unmix64(std::uint64_t x) {
  const auto unshift = [](std::uint64_t y, int by) {
    std::uint64_t z = y;
    for (int done = by; done < 64; done += by) z = y ^ (z >> by);
    return z;
  };
  const auto inverse = [](std::uint64_t odd) {
    std::uint64_t result = odd;  // right in the lowest 3 bits; each step doubles their number
    for (int i = 0; i < 5; ++i) result *= 2 - odd * result;
    return result;
  };
  x = unshift(x, 31) * inverse(0x94d049bb133111ebULL);
  x = unshift(x, 27) * inverse(0xbf58476d1ce4e5b9ULL);
  return unshift(x, 30) - 0x9e3779b97f4a7c15ULL;
}

TEST(Keyspace, ScramblingIsABijection) {
  Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t x = i < 1000 ? static_cast<std::uint64_t>(i) : random.next();
    ASSERT_EQ(unmix64(mix64(x)), x);
    ASSERT_EQ(mix64(unmix64(x)), x);
  }
  EXPECT_EQ(unmix64(mix64(last_key)), last_key);
}

TEST(Keyspace, RecordsHaveDistinctKeysAndSeedsDistinctKeySets) {
  constexpr std::uint64_t records = 200'000;
  std::vector<std::uint64_t> keys;
  for (std::uint64_t record = 0; record < records; ++record) {
    keys.push_back(key_of_record(record, 0));
    keys.push_back(key_of_record(record, 1));
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

TEST(Keyspace, ConsecutiveRecordsScatterOverTheSlices) {
  for (const std::uint64_t seed : {0u, 1u, 2u, 12345u}) {
    std::vector<std::uint64_t> observed(256);
    for (std::uint64_t record = 0; record < 100'000; ++record) {
      ++observed[slice_of_key(key_of_record(record, seed), 256)];
    }
    testing::expect_uniform(observed);
  }
}

TEST(ClusteredKeys, AreDistinctAndAscendWithTheirPositions) {
  const KeySpace space{KeySpace::Kind::clustered};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> records;
  for (std::uint64_t record = 0; record < 300'000; ++record) {
    const std::uint64_t position = space.position(record, 4);
    records.emplace_back(position, space.key(record, 4));
    ASSERT_EQ(records.back().second, space.key_at(position));
  }
  std::sort(records.begin(), records.end());
  for (std::size_t i = 1; i < records.size(); ++i) {
    ASSERT_LT(records[i - 1].first, records[i].first);
    ASSERT_LT(records[i - 1].second, records[i].second);
  }
}

TEST(ClusteredKeys, NeighbouringPositionsKeepDistinctKeysEverywhere) {
  const KeySpace space{KeySpace::Kind::clustered};
  constexpr std::uint64_t step = std::uint64_t{1} << 24;  // positions have 40 bits
  Random random(7);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t position = (random.next() >> 24) << 24;
    if (position > last_key - step) continue;
    ASSERT_LT(space.key_at(position), space.key_at(position + step));
  }
}

TEST(ClusteredKeys, FillTheSlicesAsTheirSharesSay) {
  const KeySpace space{KeySpace::Kind::clustered};
  constexpr std::uint32_t slices = 256;
  const std::vector<double> shares = record_shares(space, slices);
  // Slices too small for the test of fit are counted together.
  constexpr std::uint64_t records = 2'000'000;
  std::vector<std::uint64_t> counts(slices);
  for (std::uint64_t record = 0; record < records; ++record) {
    ++counts[slice_of_key(space.key(record, 1), slices)];
  }
  std::vector<std::uint64_t> observed{0};
  std::vector<double> probabilities{0.0};
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    if (shares[slice] * static_cast<double>(records) < 100.0) {
      observed[0] += counts[slice];
      probabilities[0] += shares[slice];
    } else {
      observed.push_back(counts[slice]);
      probabilities.push_back(shares[slice]);
    }
  }
  if (probabilities[0] * static_cast<double>(records) < 100.0) {
    observed.back() += observed[0];
    probabilities.back() += probabilities[0];
    observed.erase(observed.begin());
    probabilities.erase(probabilities.begin());
  }
  testing::expect_fit(observed, probabilities);
}

TEST(KeySpace, ShareBelowAscendsFromNoneToAll) {
  for (const KeySpace& space :
       {KeySpace{KeySpace::Kind::scattered}, KeySpace{KeySpace::Kind::clustered}}) {
    EXPECT_EQ(space.share_below(0), 0.0);
    EXPECT_NEAR(space.share_below(last_key), 1.0, 1e-9);
    double below = 0.0;
    for (std::uint64_t i = 0; i < 100'000; ++i) {
      const double share = space.share_below(i * (last_key / 100'000));
      ASSERT_GE(share, below);
      below = share;
    }
  }
}

TEST(Random, EveryByteIsUniform) {
  Random random(42);
  std::vector<std::vector<std::uint64_t>> observed(8, std::vector<std::uint64_t>(256));
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t x = random.next();
    for (unsigned byte = 0; byte < 8; ++byte) ++observed[byte][(x >> (8 * byte)) & 255];
  }
  for (const auto& counts : observed) testing::expect_uniform(counts);
}

TEST(Random, BelowIsUniformAndInRange) {
  for (const std::uint64_t bound : {1u, 2u, 3u, 10u, 97u, 1000u}) {
    Random random(bound);
    std::vector<std::uint64_t> observed(bound);
    for (int i = 0; i < 100'000; ++i) {
      const std::uint64_t x = random.below(bound);
      ASSERT_LT(x, bound);
      ++observed[x];
    }
    if (bound > 1) testing::expect_uniform(observed);
  }
}

TEST(Random, UniformLiesInTheUnitIntervalAndIsUniform) {
  Random random(5);
  std::vector<std::uint64_t> observed(1000);
  for (int i = 0; i < 200'000; ++i) {
    const double x = random.uniform();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    ++observed[static_cast<std::size_t>(x * 1000.0)];
  }
  testing::expect_uniform(observed);
}

TEST(Random, SameSeedSameNumbers) {
  Random a(9), b(9), c(10);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t x = a.next();
    EXPECT_EQ(x, b.next());
    differs = differs || x != c.next();
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace pmoss
