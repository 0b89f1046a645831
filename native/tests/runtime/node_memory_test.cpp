#include "runtime/node_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "numa/memory.hpp"

namespace pmoss::runtime {
namespace {

TEST(NodeMemory, GivesAlignedMemoryOfItsNodeAlsoInLargePieces) {
  for (const int node : numa::memory_nodes()) {
    NodeMemory memory(node);
    std::pmr::vector<std::uint64_t> small(100, 1, &memory);
    std::pmr::vector<std::uint64_t> large(1'000'000, 2, &memory);
    void* const line = memory.allocate(3, 128);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(line) % 128, 0U);
    *static_cast<char*>(line) = 1;
    EXPECT_EQ(small[99] + large[999'999], 3U);
    const numa::ResidentPages pages = memory.resident_pages();
    if (pages.error_number != 0) GTEST_SKIP() << numa::explain_memory_error(pages.error_number);
    EXPECT_GE(pages.total(), 8'000'000U / 4096);
    EXPECT_EQ(pages.on(node), pages.total()) << "node " << node;
  }
}

struct Counted {
  explicit Counted(int& ended) : ended(ended) {}
  ~Counted() { ++ended; }
  int& ended;
};

TEST(NodeMemory, WhatIsMadeInItEndsOnce) {
  int ended = 0;
  NodeMemory memory(numa::memory_nodes().front());
  {
    const auto made = make_in<Counted>(memory, ended);
  }
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace pmoss::runtime
