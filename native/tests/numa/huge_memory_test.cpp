#include "numa/huge_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "numa/memory.hpp"

namespace pmoss::numa {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::uintptr_t address(const std::shared_ptr<std::byte>& memory) {
  return reinterpret_cast<std::uintptr_t>(memory.get());
}

bool all_zero(const std::shared_ptr<std::byte>& memory, std::size_t bytes) {
  return std::all_of(memory.get(), memory.get() + bytes,
                     [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(HugeMemory, IsZeroedAndBeginsAtALine) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{65}, 3 * mib}) {
    const auto memory = huge_memory(bytes);
    EXPECT_EQ(address(memory) % 64, 0U);
    EXPECT_TRUE(all_zero(memory, bytes));
    std::memset(memory.get(), 1, bytes);
  }
}

TEST(HugeMemory, LiesSideBySideAndNeverTwiceInOnePlace) {
  std::vector<std::shared_ptr<std::byte>> held;
  // A thread of its own begins a region of its own.
  std::thread([&] {
    // More than a region: most still follow each other.
    for (int i = 0; i < 100; ++i) held.push_back(huge_memory(mib + 64));
  }).join();
  int following = 0;
  for (std::size_t i = 1; i < held.size(); ++i) {
    following += address(held[i]) == address(held[i - 1]) + mib + 64 ? 1 : 0;
  }
  EXPECT_GT(following, 90);
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(all_zero(held[i], mib + 64)) << i;  // nothing was written before
    std::memset(held[i].get(), static_cast<int>(i + 1), mib + 64);
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(held[i].get()[mib + 63], static_cast<std::byte>(i + 1));
  }
}

TEST(HugeMemory, OutlivesItsNeighboursAndItsThread) {
  std::shared_ptr<std::byte> kept;
  std::thread([&] {
    const auto before = huge_memory(mib);
    kept = huge_memory(mib);
    const auto after = huge_memory(mib);
    std::memset(before.get(), 1, mib);
    std::memset(kept.get(), 2, mib);
    std::memset(after.get(), 3, mib);
  }).join();
  EXPECT_EQ(std::count(kept.get(), kept.get() + mib, std::byte{2}),
            static_cast<std::ptrdiff_t>(mib));
}

TEST(HugeMemory, GivesItsPagesBackWithItsLastOwner) {
  std::thread([] {
    const auto neighbour = huge_memory(mib);
    auto memory = huge_memory(8 * mib);
    std::memset(memory.get(), 1, 8 * mib);
    // The pages at its ends may hold its neighbours, too.
    const std::size_t past = (address(memory) + 4095) / 4096 * 4096 - address(memory);
    std::byte* const inside = memory.get() + past;
    EXPECT_EQ(resident_pages(inside, 7 * mib).absent, 0U);
    memory.reset();
    EXPECT_EQ(resident_pages(inside, 7 * mib).total(), 0U);
    EXPECT_TRUE(all_zero(neighbour, mib));
  }).join();
}

TEST(HugeMemory, MayBeLargerThanARegion) {
  const auto memory = huge_memory(65 * mib);
  memory.get()[65 * mib - 1] = std::byte{1};
  EXPECT_EQ(memory.get()[65 * mib - 1], std::byte{1});
}

}  // namespace
}  // namespace pmoss::numa
