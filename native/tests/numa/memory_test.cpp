// Placing and moving pages, on one node or several. Every claim is the kernel's answer.
#include "numa/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include "numa/affinity.hpp"
#include "numa/topology.hpp"

namespace pmoss::numa {
namespace {

class Mapping {
 public:
  explicit Mapping(std::size_t bytes, bool huge = false) : bytes_(bytes) {
    address_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address_ == MAP_FAILED) throw std::bad_alloc();
    ::madvise(address_, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  ~Mapping() { ::munmap(address_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  void* get() const { return address_; }
  std::size_t bytes() const { return bytes_; }
  void touch() const { std::memset(address_, 7, bytes_); }
  bool intact() const {
    const auto* bytes = static_cast<const unsigned char*>(address_);
    for (std::size_t i = 0; i < bytes_; ++i) {
      if (bytes[i] != 7) return false;
    }
    return true;
  }

 private:
  std::size_t bytes_;
  void* address_;
};

constexpr std::size_t bytes = std::size_t{1} << 20;
constexpr std::uint64_t pages = bytes / 4096;

bool kernel_answers() {
  const Mapping memory(4096);
  memory.touch();
  return resident_pages(memory.get(), 4096).error_number == 0;
}

#define NEEDS_THE_KERNELS_ANSWER() \
  if (!kernel_answers()) GTEST_SKIP() << "this kernel or container forbids move_pages"
#define NEEDS_NODES(n) \
  if (memory_nodes().size() < (n)) GTEST_SKIP() << "this host has one memory node"

TEST(NumaMemory, PagesAreAbsentUntilTouched) {
  NEEDS_THE_KERNELS_ANSWER();
  const Mapping memory(bytes);
  EXPECT_EQ(resident_pages(memory.get(), bytes).absent, pages);
  memory.touch();
  const ResidentPages there = resident_pages(memory.get(), bytes);
  EXPECT_EQ(there.absent, 0U);
  EXPECT_EQ(there.total(), pages);
}

TEST(NumaMemory, EveryNodeTakesWhatIsPlacedThere) {
  NEEDS_THE_KERNELS_ANSWER();
  for (const int node : memory_nodes()) {
    const Mapping memory(bytes);
    ASSERT_EQ(set_placement(memory.get(), bytes, Placement::on(node)), 0);
    memory.touch();
    EXPECT_EQ(resident_pages(memory.get(), bytes).on(node), pages) << "node " << node;
  }
}

TEST(NumaMemory, InterleavingUsesAllNodesEvenly) {
  NEEDS_THE_KERNELS_ANSWER();
  const Mapping memory(bytes);
  ASSERT_EQ(set_placement(memory.get(), bytes, Placement::interleaved()), 0);
  memory.touch();
  const ResidentPages there = resident_pages(memory.get(), bytes);
  for (const int node : memory_nodes()) EXPECT_EQ(there.on(node), pages / memory_nodes().size());
}

TEST(NumaMemory, FirstTouchFollowsTheThread) {
  NEEDS_THE_KERNELS_ANSWER();
  const Topology topology = read_topology();
  const auto allowed = allowed_cpus();
  for (const int cpu : allowed) {
    const Mapping memory(bytes);
    std::jthread([&] {
      pin_thread(cpu);
      memory.touch();
    }).join();
    EXPECT_EQ(resident_pages(memory.get(), bytes).on(topology.find(cpu)->node), pages);
  }
}

TEST(NumaMemory, MovesPagesAndTheirContent) {
  NEEDS_THE_KERNELS_ANSWER();
  NEEDS_NODES(2);
  for (const bool huge : {false, true}) {
    const Mapping memory(4 * bytes, huge);
    memory.touch();
    for (const int node : memory_nodes()) {
      const ResidentPages before = resident_pages(memory.get(), memory.bytes());
      const PageMove move = move_pages(memory.get(), memory.bytes(), node);
      EXPECT_EQ(move.moved, 4 * pages - before.on(node));
      EXPECT_EQ(move.failed, 0U);
      EXPECT_EQ(move.error_number, 0);
      EXPECT_EQ(resident_pages(memory.get(), memory.bytes()).on(node), 4 * pages);
      EXPECT_TRUE(memory.intact());
    }
  }
}

TEST(NumaMemory, MovingToWherePagesAreMovesNothing) {
  NEEDS_THE_KERNELS_ANSWER();
  const int node = memory_nodes().front();
  const Mapping memory(bytes);
  ASSERT_EQ(set_placement(memory.get(), bytes, Placement::on(node)), 0);
  memory.touch();
  const PageMove move = move_pages(memory.get(), bytes, node);
  EXPECT_EQ(move.moved, 0U);
  EXPECT_EQ(move.failed, 0U);
}

TEST(NumaMemory, AnAbsentNodeIsAnErrorWithItsReason) {
  NEEDS_THE_KERNELS_ANSWER();
  const Mapping memory(bytes);
  EXPECT_NE(set_placement(memory.get(), bytes, Placement::on(1000)), 0);
  EXPECT_EQ(set_placement(memory.get(), bytes, Placement::on(-1)), EINVAL);
  memory.touch();
  const PageMove move = move_pages(memory.get(), bytes, 1000);
  EXPECT_EQ(move.moved, 0U);
  EXPECT_EQ(move.failed, pages);
  EXPECT_NE(move.error_number, 0);
  EXPECT_NE(explain_memory_error(move.error_number).find("node"), std::string::npos);
  EXPECT_TRUE(memory.intact());
  // What lies in several huge pages' places is counted to the end.
  const Mapping large(5 * bytes);
  large.touch();
  EXPECT_EQ(move_pages(large.get(), large.bytes(), 1000).failed, 5 * pages);
}

}  // namespace
}  // namespace pmoss::numa
