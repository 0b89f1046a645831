// Placing and moving pages, on one node or several. Every claim is the kernel's answer.
#include "numa/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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
  const ResidentPages resident = resident_pages(memory.get(), bytes);
  EXPECT_EQ(resident.absent, 0U);
  EXPECT_EQ(resident.total(), pages);
}

TEST(NumaMemory, OnePartTellsWhereAHugePageIs) {
  NEEDS_THE_KERNELS_ANSWER();
  constexpr std::size_t huge = std::size_t{2} << 20;
  for (const bool wanted : {false, true}) {
    const Mapping memory(4 * huge, wanted);
    auto* first = static_cast<std::byte*>(memory.get());
    first += huge - reinterpret_cast<std::uintptr_t>(first) % huge;
    EXPECT_FALSE(is_huge_page(first)) << "not touched yet";
    std::memset(first, 1, huge);
    EXPECT_TRUE(wanted || !is_huge_page(first));
    // From before the huge page to behind it: the next one is not there yet.
    std::byte* const begin = first - 4096;
    const std::size_t bytes = huge + 3 * 4096;
    const ResidentPages all = resident_pages(begin, bytes, system_page_call());
    const ResidentPages resident = resident_pages(begin, bytes);
    EXPECT_EQ(resident.on_node, all.on_node);
    EXPECT_EQ(resident.absent, all.absent);
    EXPECT_EQ(resident.error_number, 0);
  }
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

TEST(NumaMemory, InterleavingUsesAllNodesThatAreNamedEvenly) {
  NEEDS_THE_KERNELS_ANSWER();
  const std::vector<int> all = memory_nodes();
  for (const std::vector<int>& nodes : {all, std::vector<int>{all.back()}}) {
    const Mapping memory(bytes);
    ASSERT_EQ(set_placement(memory.get(), bytes, Placement::interleaved(nodes)), 0);
    memory.touch();
    const ResidentPages resident = resident_pages(memory.get(), bytes);
    for (const int node : nodes) EXPECT_EQ(resident.on(node), pages / nodes.size());
    EXPECT_EQ(resident.total(), pages);
  }
}

TEST(NumaMemory, NodesWithoutCpusAreLeftOutOfInterleaving) {
  Topology topology;
  topology.nodes = {{0, 0, {0, 1}, {}}, {1, 0, {2, 3}, {}}, {2, 0, {}, {}}, {3, 0, {4}, {}}};
  EXPECT_EQ(nodes_to_interleave(topology, {0, 1, 2}), (std::vector<int>{0, 1}));
  // Of a process that may use no other memory.
  EXPECT_EQ(nodes_to_interleave(topology, {2}), (std::vector<int>{2}));
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

// A kernel of the tests: 4 pages of a range, and what happens to each when it is to move.
class FakeKernel {
 public:
  explicit FakeKernel(std::vector<int> nodes) : nodes_(std::move(nodes)) {}

  /// Called with the number of the moving call before it; 0 lets the pages move.
  std::function<int(int call)> page_error = [](int) { return 0; };
  std::function<void(std::vector<int>& nodes)> meanwhile = [](std::vector<int>&) {};
  int moving_calls = 0;

  PageMove move(int node) {
    // Aligned to its size, wherever the program lies: it never crosses into another huge page.
    constexpr std::size_t bytes = 4 * 4096;
    static std::byte room[2 * bytes];
    void* start = room;
    std::size_t left = sizeof room;
    auto* const memory = static_cast<std::byte*>(std::align(bytes, bytes, start, left));
    return move_pages(
        memory, bytes, node, [&](std::size_t count, void** pages, const int* to, int* status) {
          for (std::size_t i = 0; i < count; ++i) {
            const auto at =
                static_cast<std::size_t>((static_cast<std::byte*>(pages[i]) - memory) / 4096);
            if (to == nullptr) {
              status[i] = nodes_[at];
            } else if (const int error = page_error(moving_calls); error == 0) {
              status[i] = nodes_[at] = to[i];
            } else {
              status[i] = -error;
            }
          }
          if (to != nullptr) {
            ++moving_calls;
            meanwhile(nodes_);
          }
          return 0L;
        });
  }

 private:
  std::vector<int> nodes_;
};

TEST(NumaMove, BusyPagesAreTriedAgain) {
  FakeKernel kernel({0, 0, 1, 0});
  kernel.page_error = [](int call) { return call < 3 ? EBUSY : 0; };
  const PageMove move = kernel.move(1);
  EXPECT_EQ(move.moved, 3U);
  EXPECT_EQ(move.failed, 0U);
  EXPECT_EQ(move.error_number, 0);
  EXPECT_EQ(kernel.moving_calls, 4);
}

TEST(NumaMove, PagesThatStayBusyAreTold) {
  FakeKernel kernel({0, 0, 1, -ENOENT});
  kernel.page_error = [](int) { return EBUSY; };
  const PageMove move = kernel.move(1);
  EXPECT_EQ(move.moved, 0U);
  EXPECT_EQ(move.failed, 2U);
  EXPECT_EQ(move.error_number, EBUSY);
}

TEST(NumaMove, AFullNodeIsNotTriedAgain) {
  FakeKernel kernel({0, 0, 0, 0});
  kernel.page_error = [](int call) { return call == 0 ? 0 : ENOMEM; };
  const PageMove move = kernel.move(1);
  EXPECT_EQ(move.moved, 1U);
  EXPECT_EQ(move.failed, 3U);
  EXPECT_EQ(move.error_number, ENOMEM);
  EXPECT_EQ(kernel.moving_calls, 2);
}

TEST(NumaMove, CountsDoNotWrapWherePagesAppearMeanwhile) {
  FakeKernel kernel({0, -ENOENT, -ENOENT, -ENOENT});
  kernel.page_error = [](int) { return ENOMEM; };
  kernel.meanwhile = [](std::vector<int>& nodes) { nodes = {0, 0, 0, 0}; };
  const PageMove move = kernel.move(1);
  EXPECT_EQ(move.moved, 0U);
  EXPECT_EQ(move.failed, 4U);
}

// A kernel whose pages have 64 KiB. Parts of 4 KiB of one page lie and move together. Within a call
// a page that moves is busy for all its other parts.
TEST(NumaMove, PagesOfSixtyFourKibibytesAreCountedByTheirParts) {
  constexpr std::size_t page = 65536;
  constexpr std::size_t parts = page / 4096;
  static std::byte room[8 * page];
  void* start = room;
  std::size_t left = sizeof room;
  // Two pages, of which the range has the second half of the first and the whole of the other.
  auto* const memory = static_cast<std::byte*>(std::align(4 * page, 2 * page, start, left));
  std::vector<int> nodes = {0, 0};
  const PageCall kernel = [&](std::size_t count, void** pages, const int* to, int* status) {
    std::vector<bool> busy(nodes.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(static_cast<std::byte*>(pages[i]) - memory) / page;
      if (to == nullptr) {
        status[i] = nodes[at];
      } else if (busy[at]) {
        status[i] = -EBUSY;
      } else {
        busy[at] = true;
        status[i] = nodes[at] = to[i];
      }
    }
    return 0L;
  };
  std::byte* const first = memory + page / 2;
  const PageMove move = move_pages(first, page + page / 2, 1, kernel);
  EXPECT_EQ(move.moved, parts + parts / 2);
  EXPECT_EQ(move.failed, 0U);
  EXPECT_EQ(move.error_number, 0);
  EXPECT_EQ(nodes, std::vector<int>({1, 1}));
  const ResidentPages resident = resident_pages(first, page + page / 2, kernel);
  EXPECT_EQ(resident.on(1), parts + parts / 2);
  EXPECT_EQ(resident.total(), parts + parts / 2);
}

TEST(NumaMove, ARefusalIsToldWithTheWayOut) {
  alignas(4096) static std::byte page[4096];
  page[0] = std::byte{1};
  const PageMove move = move_pages(page, sizeof page, 1, [](std::size_t, void**, const int*, int*) {
    errno = EPERM;
    return -1L;
  });
  EXPECT_EQ(move.moved, 0U);
  EXPECT_EQ(move.error_number, EPERM);
  EXPECT_TRUE(is_refusal(move.error_number));
  const std::string text = explain_memory_error(EPERM);
  for (const char* const word : {"seccomp", "CAP_SYS_NICE", "cpuset.mems"}) {
    EXPECT_NE(text.find(word), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace pmoss::numa
