#include "analytic/decay.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "analytic/fast_exp.hpp"
#include "workload/portable_math.hpp"
#include "workload/random.hpp"

namespace pmoss::analytic {
namespace {

std::vector<double> drawn(std::size_t n, double lowest, double highest, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> values(n);
  for (double& value : values) value = lowest + (highest - lowest) * random.uniform();
  return values;
}

TEST(Decay, AgreesWithTheLibrary) {
  const std::vector<double> rates = drawn(4096, 0.0, 690.0, 1);
  std::vector<double> left(rates.size());
  for (const DecayKernels& kernels : all_decay_kernels()) {
    kernels.decay(rates.data(), rates.size(), 1.0, left.data());
    for (std::size_t i = 0; i < rates.size(); ++i) {
      ASSERT_NEAR(left[i] / std::exp(-rates[i]), 1.0, 1e-9) << kernels.name << ' ' << rates[i];
    }
  }
}

TEST(Decay, StartsAtOneAndVanishesFarOut) {
  const std::vector<double> rates(8, 1e4);
  std::vector<double> left(8);
  decay_kernels().decay(rates.data(), 8, 0.0, left.data());
  EXPECT_EQ(left[3], 1.0);
  decay_kernels().decay(rates.data(), 8, 1.0, left.data());
  EXPECT_LT(left[3], 1e-299);
}

TEST(Decay, SumsAreThoseOfTheirTerms) {
  const std::vector<double> lines = drawn(64, 0.0, 100.0, 2);
  const std::vector<double> rates = drawn(64, 0.0, 3.0, 3);
  double sum = 0.0, slope = 0.0;
  for (std::size_t i = 0; i < 64; ++i) {
    sum += lines[i] * std::exp(-rates[i] * 0.7);
    slope += lines[i] * rates[i] * std::exp(-rates[i] * 0.7);
  }
  const Absent absent = decay_kernels().absent(lines.data(), rates.data(), 64, 0.7);
  EXPECT_NEAR(absent.lines / sum, 1.0, 1e-9);
  EXPECT_NEAR(absent.slope / slope, 1.0, 1e-9);
}

TEST(Decay, GivesTheSameBitsAtEveryWidth) {
  const std::vector<double> lines = drawn(256, 0.0, 1e5, 4);
  const std::vector<double> rates = drawn(256, 0.0, 1e-3, 5);
  const std::vector<double> share = drawn(256, 0.0, 1.0, 6);
  const std::vector<double> past = drawn(256, 0.0, 1.0, 7);
  const DecayKernels& baseline = all_decay_kernels().front();
  std::vector<double> expected(256), left(256);
  const Row row{lines.data(), rates.data(), share.data(), past.data(), expected.data(), 256};
  baseline.decay(rates.data(), 256, 777.0, expected.data());
  const Absent absent = baseline.absent(lines.data(), rates.data(), 256, 777.0);
  const RowSums sums = baseline.sum_row(row);
  for (const DecayKernels& kernels : all_decay_kernels()) {
    kernels.decay(rates.data(), 256, 777.0, left.data());
    EXPECT_EQ(left, expected) << kernels.name;
    const Absent other = kernels.absent(lines.data(), rates.data(), 256, 777.0);
    EXPECT_EQ(other.lines, absent.lines) << kernels.name;
    EXPECT_EQ(other.slope, absent.slope) << kernels.name;
    const RowSums others = kernels.sum_row(row);
    EXPECT_EQ(others.near, sums.near) << kernels.name;
    EXPECT_EQ(others.far, sums.far) << kernels.name;
    EXPECT_EQ(others.fetched, sums.fetched) << kernels.name;
    EXPECT_EQ(others.dirtied, sums.dirtied) << kernels.name;
  }
}

TEST(Decay, GivesTheBitsOfTheScalarFormulasAtEveryWidth) {
  const std::vector<double> rates = drawn(64, 0.0, 1e-2, 8);
  const std::vector<double> times = drawn(64, 1e-9, 1e9, 9);
  const std::vector<double> bursts = drawn(64, 0.5, 8.0, 10);
  for (const DecayKernels& kernels : all_decay_kernels()) {
    std::vector<double> left(64), since(64), logs(64);
    kernels.row_decay(rates.data(), 64, 5e4, left.data());
    kernels.row_left(times.data(), 64, 3e8, since.data());
    kernels.logarithms(times.data(), 64, logs.data());
    for (std::size_t i = 0; i < 64; ++i) {
      ASSERT_EQ(left[i], exp_of_negative(-rates[i] * 5e4)) << kernels.name;
      ASSERT_EQ(since[i], exp_of_negative(-3e8 / times[i])) << kernels.name;
      ASSERT_EQ(logs[i], portable::log(times[i])) << kernels.name;
    }
    for (const std::size_t n : {1, 7, 8, 57, 64}) {
      Queued sum;
      for (std::size_t i = 0; i < n; ++i) {
        const double r = 90.0 * rates[i], free = 1.0 / (1.0 - r);
        sum.queries += r + bursts[i] * r * r * free;
        sum.slope += rates[i] * (1.0 + bursts[i] * (free * free - 1.0));
      }
      const Queued queued = kernels.queue(rates.data(), bursts.data(), n, 90.0);
      ASSERT_EQ(queued.queries, sum.queries) << kernels.name << ' ' << n;
      ASSERT_EQ(queued.slope, sum.slope) << kernels.name << ' ' << n;
    }
  }
}

TEST(Decay, MixesRowsOfATableInTheSameBitsAtEveryWidth) {
  const std::vector<double> drawn_table = drawn(5 * 4 * mixed_sums, -1.0, 1.0, 11);
  const std::vector<float> table(drawn_table.begin(), drawn_table.end());
  const std::vector<double> a = drawn(4, -1.0, 1.0, 12), b = drawn(4, -1.0, 1.0, 13);
  std::vector<MixedRow> rows;
  for (std::size_t i = 0; i < 5; ++i) {
    const float* const other = &table[(4 - i) * 4 * mixed_sums];
    rows.push_back({{&table[i * 4 * mixed_sums], other}, {a.data(), b.data()}});
  }
  for (const DecayKernels& kernels : all_decay_kernels()) {
    std::vector<double> mixed(rows.size() * mixed_sums);
    kernels.mix_rows(rows.data(), rows.size(), 0.3, mixed.data());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t k = 0; k < mixed_sums; ++k) {
        double sums[2];
        for (std::size_t time = 0; time < 2; ++time) {
          const float* const v = rows[i].rows[time] + k;
          const double* const w = rows[i].weights[time];
          sums[time] = w[0] * v[0] + w[1] * v[mixed_sums] + w[2] * v[2 * mixed_sums] +
                       w[3] * v[3 * mixed_sums];
        }
        ASSERT_EQ(mixed[i * mixed_sums + k], 0.3 * sums[0] + (1.0 - 0.3) * sums[1])
            << kernels.name << ' ' << i << ' ' << k;
      }
    }
  }
}

TEST(Decay, FindsTheFirstOfTheGreatest) {
  for (const DecayKernels& kernels : all_decay_kernels()) {
    for (const std::size_t n : {1, 3, 8, 21, 64}) {
      const std::vector<double> values = drawn(n, 0.0, 1.0, n);
      for (std::size_t first = 0; first < n; ++first) {
        for (std::size_t second = first; second < n; ++second) {
          std::vector<double> with = values;
          with[first] = with[second] = 2.0;
          const Greatest result = kernels.greatest(with.data(), n);
          ASSERT_EQ(result.value, 2.0) << kernels.name << ' ' << n;
          ASSERT_EQ(result.at, first) << kernels.name << ' ' << n << ' ' << second;
        }
      }
    }
    EXPECT_EQ(kernels.greatest(nullptr, 0).value, 0.0);
  }
}

TEST(Decay, OnlyWrittenLinesGoBack) {
  const std::vector<double> ones(4, 1.0), zeros(4, 0.0), halves(4, 0.5);
  const auto dirtied = [&](const std::vector<double>& dirty, const std::vector<double>& past) {
    return decay_kernels()
        .sum_row({ones.data(), ones.data(), dirty.data(), past.data(), past.data(), 4})
        .dirtied;
  };
  EXPECT_EQ(dirtied(zeros, halves), 0.0);
  EXPECT_EQ(dirtied(zeros, zeros), 0.0);
  EXPECT_EQ(dirtied(ones, halves), 2.0);
  // Each line is touched once while it stays, and every other touch writes.
  EXPECT_EQ(dirtied(halves, ones), 2.0);
}

}  // namespace
}  // namespace pmoss::analytic
