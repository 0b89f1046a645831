// Key files, good and bad: what is read from them against the keys that were written.
#include "workload/sorted_key_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "workload/generator.hpp"
#include "workload/keyspace.hpp"

namespace pmoss {
namespace {

/// A file of words that is gone at the end of the test.
class KeyFile {
 public:
  explicit KeyFile(const std::vector<std::uint64_t>& words)
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("keys_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(words.data()),
              static_cast<std::streamsize>(words.size() * sizeof(std::uint64_t)));
  }
  ~KeyFile() { std::filesystem::remove(path_); }
  KeyFile(const KeyFile&) = delete;
  KeyFile& operator=(const KeyFile&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string complaint_of(const std::string& path) {
  try {
    const SortedKeyFile keys(path);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(SortedKeyFile, RecordsAreItsKeysEachOnceAndStretched) {
  const KeyFile file({7, 100, 101, 101, 105, 200, 200, 355});
  const SortedKeyFile keys(file.path());
  ASSERT_EQ(keys.size(), 5u);
  for (const std::uint64_t seed : {0u, 1u, 99u}) {
    std::vector<std::uint64_t> got;
    for (std::uint64_t record = 0; record < keys.size(); ++record) {
      got.push_back(keys.key(record, seed));
      EXPECT_EQ(keys.key_at(keys.position(record, seed)), got.back());
    }
    std::sort(got.begin(), got.end());
    // The widest distance, 255, takes 8 bits.
    const std::vector<std::uint64_t> expected{0, 1ull << 56, 5ull << 56, 100ull << 56,
                                              255ull << 56};
    EXPECT_EQ(got, expected);
  }
}

TEST(SortedKeyFile, SharesOfSlicesAreThoseOfACountAndEmptySlicesHaveNone) {
  // One key far away: nearly all slices in between stay empty.
  std::vector<std::uint64_t> words{1001};
  for (std::uint64_t i = 0; i < 1000; ++i) words.push_back(10 * i);
  words.push_back(1'000'000);
  const KeyFile file(words);
  const auto keys = std::make_shared<const SortedKeyFile>(file.path());
  const KeySpace space{KeySpace::Kind::file, keys};
  constexpr std::uint32_t slices = 256;
  std::vector<double> counted(slices, 0.0);
  for (std::uint64_t record = 0; record < keys->size(); ++record) {
    counted[slice_of_key(space.key(record, 3), slices)] += 1.0 / 1001.0;
  }
  const std::vector<double> shares = record_shares(space, slices);
  ASSERT_EQ(shares.size(), slices);
  int empty = 0;
  for (std::uint32_t slice = 0; slice < slices; ++slice) {
    EXPECT_NEAR(shares[slice], counted[slice], 1e-12);
    EXPECT_EQ(counted[slice] == 0.0, shares[slice] == 0.0) << slice;
    empty += shares[slice] == 0.0 ? 1 : 0;
  }
  EXPECT_GT(empty, 200);
}

TEST(SortedKeyFile, InsertsTakeKeysThatAreNotLoaded) {
  std::vector<std::uint64_t> words{1000};
  for (std::uint64_t i = 0; i < 1000; ++i) words.push_back(i * i);
  const KeyFile file(words);
  WorkloadSpec spec;
  spec.lookup = 0.0;
  spec.insert = 1.0;
  spec.records = 400;
  spec.space = {KeySpace::Kind::file, std::make_shared<const SortedKeyFile>(file.path())};
  std::vector<std::uint64_t> keys;
  for (std::uint64_t r = 0; r < spec.records; ++r) keys.push_back(spec.space.key(r, spec.seed));
  OperationGenerator generator(spec, 0, spec.records, 1);
  for (int i = 0; i < 600; ++i) keys.push_back(generator.next().key);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

TEST(SortedKeyFile, BadFilesAreNamedWithTheReason) {
  const auto complaint = [](const std::vector<std::uint64_t>& words) {
    const KeyFile file(words);
    const std::string got = complaint_of(file.path());
    EXPECT_NE(got.find(file.path()), std::string::npos) << got;
    return got;
  };
  EXPECT_NE(complaint({}).find("0 bytes"), std::string::npos);
  EXPECT_NE(complaint({3, 1, 2}).find("announces 3 keys but holds 2"), std::string::npos);
  EXPECT_NE(complaint({3, 1, 5, 4}).find("key 2 is 4, below the one before it"), std::string::npos);
  EXPECT_NE(complaint({0}).find("at least 2 different keys"), std::string::npos);
  EXPECT_NE(complaint({3, 9, 9, 9}).find("at least 2 different keys"), std::string::npos);
  EXPECT_NE(complaint_of("/no/such/file").find("cannot be opened"), std::string::npos);
}

}  // namespace
}  // namespace pmoss
