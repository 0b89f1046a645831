// Tests that need the guest: nodes, CPUs and distances that are known beforehand.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kinds/index_kind.hpp"
#include "numa/affinity.hpp"
#include "numa/memory.hpp"
#include "numa/sysfs.hpp"
#include "numa/topology.hpp"
#include "runtime/node_memory.hpp"
#include "runtime/runner.hpp"

namespace {

/// Called before pages are placed, if it is set: another thread may run there.
std::function<void()> before_mbind;

}  // namespace

// In place of libnuma's, which is a weak symbol.
extern "C" long mbind(void* start, unsigned long bytes, int mode, const unsigned long* nodes,
                      unsigned long bits, unsigned flags) {
  if (before_mbind) before_mbind();
  return ::syscall(SYS_mbind, start, bytes, mode, nodes, bits, flags);
}

namespace pmoss::numa {
namespace {

int expected(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

bool write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  return static_cast<bool>(file << text << std::flush);
}

class Guest : public testing::Test {
 protected:
  void SetUp() override {
    if (expected("PMOSS_GUEST_NODES") == 0) GTEST_SKIP() << "only in the guest";
  }
};

TEST_F(Guest, TheTopologyIsTheOneThatWasAskedFor) {
  const auto nodes = static_cast<std::size_t>(expected("PMOSS_GUEST_NODES"));
  const auto per_node = static_cast<std::size_t>(expected("PMOSS_GUEST_CPUS"));
  const Topology topology = read_topology();
  ASSERT_EQ(topology.nodes.size(), nodes);
  ASSERT_EQ(topology.cpus.size(), nodes * per_node);
  EXPECT_EQ(memory_nodes().size(), nodes);
  for (std::size_t n = 0; n < nodes; ++n) {
    EXPECT_EQ(topology.nodes[n].cpus.size(), per_node);
    ASSERT_EQ(topology.nodes[n].distances.size(), nodes);
    for (std::size_t m = 0; m < nodes; ++m) {
      // Pairs of co-tenants are near, the rest is far; the launcher says so to QEMU.
      const int distance = n == m ? 10 : n / 2 == m / 2 ? 12 : 21;
      EXPECT_EQ(topology.nodes[n].distances[m], distance) << n << " to " << m;
    }
  }
}

// The launcher makes these lines files again, which the importer of machines then reads.
TEST_F(Guest, TellsItsFiles) {
  namespace fs = std::filesystem;
  std::size_t files = 0;
  for (const char* root : {"/sys/devices/system/node", "/sys/devices/system/cpu"}) {
    for (auto at = fs::recursive_directory_iterator(root); at != fs::recursive_directory_iterator();
         ++at) {
      const fs::path& path = at->path();
      if (at.depth() > 3 || at->is_symlink()) {
        at.disable_recursion_pending();
        continue;
      }
      if (!at->is_regular_file() || path.string().find("/power/") != std::string::npos) continue;
      const auto text = sysfs::read_text(path);
      if (!text || text->empty()) continue;
      std::string line = *text;
      for (char& c : line) c = c == '\n' ? '\t' : c;
      std::printf("FILE %s %s\n", path.c_str(), line.c_str());
      ++files;
    }
  }
  EXPECT_GT(files, 20U);
}

// A thread's stack below a worker's memory: the stack's first touch may come before that memory is
// placed, and brings a huge page.
void allocate_beside_a_neighbour() {
  constexpr std::size_t huge_page = std::size_t{2} << 20, block = std::size_t{1} << 20;
  pin_thread(0);  // of node 0, which touches first
  const auto map = [](std::size_t bytes, int access) {
    void* const memory = ::mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return static_cast<std::byte*>(memory);
  };
  std::byte* const mapped = map(2 * huge_page, PROT_READ | PROT_WRITE);
  std::byte* const neighbour =
      mapped + (huge_page - reinterpret_cast<std::uintptr_t>(mapped) % huge_page) % huge_page;
  std::byte* const gap = neighbour + block;
  ::munmap(gap, block);
  // The kernel maps at the highest place with room: that is the gap once all above it are filled.
  std::vector<std::byte*> filled;
  std::byte* at = nullptr;
  while (filled.size() < 10'000 && (at = map(block, PROT_NONE)) != gap) filled.push_back(at);
  ASSERT_EQ(at, gap);
  ::munmap(gap, block);
  std::size_t touches = 0;
  before_mbind = [&] {
    *static_cast<volatile std::byte*>(neighbour) = std::byte{1};
    ++touches;
  };
  {
    runtime::NodeMemory memory(1);
    void* const first = memory.allocate(block, 64);
    before_mbind = nullptr;
    EXPECT_EQ(touches, 1U);
    EXPECT_EQ(first, gap);
    std::memset(first, 1, block);
    const ResidentPages pages = memory.resident_pages();
    EXPECT_EQ(pages.total(), block / 4096);
    EXPECT_EQ(pages.on(1), pages.total());
  }
  for (std::byte* const filling : filled) ::munmap(filling, block);
  ::munmap(mapped, 2 * huge_page);
}

TEST_F(Guest, AHugePageOfANeighbourTakesNoPartOfAWorkersMemory) {
  ASSERT_TRUE(write_text("/sys/kernel/mm/transparent_hugepage/enabled", "always"));
  std::jthread thread(allocate_beside_a_neighbour);
}

bool a_thread_is_bound_to(int cpu) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line == "Cpus_allowed_list:\t" + std::to_string(cpu)) return true;
    }
  }
  return false;
}

class GuestFaults : public Guest {
 protected:
  static constexpr std::uint32_t slices = 16;

  void SetUp() override {
    Guest::SetUp();
    if (IsSkipped()) return;
    load(200'000);
  }

  void load(std::uint64_t records) {
    WorkloadSpec spec;
    spec.lookup = 0.5;
    spec.update = 0.5;
    spec.records = records;
    runner_ = kinds::make_runner(kinds::kind_named("btree"), spec, {slices, false, {}}, 1);
    runner_->load();
  }

  static runtime::MeasureOptions on(std::vector<int> cpus, int node) {
    runtime::MeasureOptions options;
    options.worker_cpus = std::move(cpus);
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      options.schedule.cores.push_back(options.worker_cpus[slice % options.worker_cpus.size()]);
    }
    options.schedule.nodes.assign(slices, node);
    options.schedule.data = DataPlacement::slice;
    options.migration.pace = runtime::MigrationPace::aggressive;
    options.migration.always = true;
    options.seconds = 0.5;
    options.warmup_seconds = 0.1;
    return options;
  }

  std::string refusal(const runtime::MeasureOptions& options) {
    try {
      runner_->measure(options);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  }

  std::unique_ptr<runtime::Runner> runner_;
};

TEST_F(GuestFaults, ACpuThatIsOfflineIsRefusedAndOneThatGoesOfflineIsTold) {
  const std::string online = "/sys/devices/system/cpu/cpu7/online";
  runtime::MeasureOptions options = on({0, 7}, 0);
  options.seconds = 4;  // enough for the CPU to go meanwhile, also on a slow host
  std::jthread off([&](const std::stop_token& stop) {
    // Before its thread is bound there the measurement would be refused instead.
    while (!stop.stop_requested() && !a_thread_is_bound_to(7)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(write_text(online, "0"));
  });
  // The kernel moves its thread elsewhere: the measurement ends, and says where that was.
  const runtime::Measurement result = runner_->measure(options);
  off.join();
  EXPECT_GT(result.completed, 0U);
  EXPECT_EQ(result.not_found, 0U);
  EXPECT_EQ(result.worker_cpus[0], 0);
  EXPECT_NE(result.worker_cpus[1], 7);
  // Now no thread is bound there any more.
  EXPECT_EQ(read_topology().find(7), nullptr);
  EXPECT_NE(refusal(options).find("CPU 7"), std::string::npos) << refusal(options);
  options.seconds = 0.5;
  ASSERT_TRUE(write_text(online, "1"));
  EXPECT_EQ(runner_->measure(options).worker_cpus[1], 7);
}

TEST_F(GuestFaults, OnAFullNodeDataStayElsewhereAndThatIsTold) {
  const int full = 3;
  // A kernel that is short of memory frees several MiB of its own when it finds the time. All
  // slices together need far more than that, so a full node cannot take them all, however slow the
  // host.
  load(1'000'000);
  constexpr std::size_t part = std::size_t{4} << 20;
  std::vector<void*> taken;
  // First what is placed there, then what is moved there, which the kernel lets go further. The
  // kernel goes on to free pages of its own for a while: it is filled before each strategy.
  const auto fill = [&] {
    int without_room = 0;
    for (int i = 0; i < 256 && without_room < 8; ++i) {
      void* const memory =
          ::mmap(nullptr, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(memory, MAP_FAILED);
      taken.push_back(memory);
      ::madvise(memory, part, MADV_NOHUGEPAGE);
      ASSERT_EQ(set_placement(memory, part, Placement::on(full)), 0);
      std::memset(memory, 1, part);
      const std::uint64_t elsewhere = part / 4096 - resident_pages(memory, part).on(full);
      if (elsewhere == 0) continue;
      without_room = move_pages(memory, part, full).moved > 0 ? 0 : without_room + 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ASSERT_EQ(without_room, 8) << "the node never filled up";
  };
  for (const auto strategy :
       {runtime::MigrationStrategy::copy, runtime::MigrationStrategy::move_pages}) {
    // Data that lie on that node already need no room there.
    ASSERT_TRUE(runner_->measure(on({0, 1}, 0)).in_place);
    ASSERT_NO_FATAL_FAILURE(fill());
    runtime::MeasureOptions options = on({0, 1}, full);
    options.migration.strategy = strategy;
    const runtime::Measurement result = runner_->measure(options);
    EXPECT_GT(result.completed, 0U);
    EXPECT_EQ(result.not_found, 0U);
    EXPECT_FALSE(result.in_place);
    std::uint64_t failed = 0;
    std::uint64_t elsewhere = 0;
    for (const runtime::SlicePlacement& slice : result.slice_placements) {
      EXPECT_EQ(slice.in_place(), slice.home == slice.pages);
      failed += slice.in_place() ? 0 : 1;
      elsewhere += slice.pages - slice.home;
      if (!slice.in_place()) {
        EXPECT_NE(slice.cause().find("the node is full"), std::string::npos) << slice.cause();
      }
    }
    EXPECT_GT(failed, 0U);
    EXPECT_EQ(result.migration.slices_failed, failed);
    EXPECT_EQ(result.migration.pages_failed, elsewhere);
    EXPECT_EQ(result.migration.error_number, ENOMEM);
    EXPECT_LT(result.migration.slices, std::uint64_t{slices});
  }
  for (void* const memory : taken) ::munmap(memory, part);
  // What has failed is not taken for done: it is tried again on its own.
  for (const auto strategy :
       {runtime::MigrationStrategy::move_pages, runtime::MigrationStrategy::copy}) {
    runtime::MeasureOptions options = on({0, 1}, full);
    options.migration.always = false;
    options.migration.strategy = strategy;
    const runtime::Measurement again = runner_->measure(options);
    EXPECT_TRUE(again.in_place);
    EXPECT_EQ(again.pages.on(full), again.pages.total());
    const bool first = strategy == runtime::MigrationStrategy::move_pages;
    EXPECT_EQ(again.migration.slices > 0, first);
  }
}

// As container runtimes refuse it: the call ends with EPERM, in this process from now on. So it
// runs in one of its own.
int refuse(long call) {
  const std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), const_cast<sock_filter*>(filter.data())};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ? 0 : errno;
}

TEST_F(GuestFaults, ARefusedCallIsAnErrorThatNamesTheWayOut) {
  for (const long call : {SYS_mbind, SYS_move_pages, SYS_get_mempolicy}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int status = refuse(call) == 0 ? 0 : 1;
      runtime::MeasureOptions options = on({0, 1}, 2);
      try {
        runner_->measure(options);
        status |= 2;
      } catch (const runtime::PlacementRefused& error) {
        const std::string text = error.what();
        for (const char* const word : {"seccomp", "CAP_SYS_NICE", "cpuset.mems", "keep"}) {
          status |= text.find(word) == std::string::npos ? 4 : 0;
        }
      } catch (const std::exception& error) {
        std::fprintf(stderr, "not the error of a refusal: %s\n", error.what());
        status |= 16;
      }
      // What needs none of these calls runs.
      options.schedule.data = DataPlacement::keep;
      options.seconds = 0.1;
      try {
        status |= runner_->measure(options).completed > 0 ? 0 : 8;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "data that stay: %s\n", error.what());
        status |= 32;
      }
      ::_exit(status);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << call << ": " << status;
  }
}

// In a guest of its own: one of the nodes has CPUs and no memory.
class GuestWithoutMemory : public GuestFaults {
 protected:
  void SetUp() override {
    if (std::getenv("PMOSS_GUEST_MEMORYLESS") == nullptr) GTEST_SKIP() << "every node has memory";
    GuestFaults::SetUp();
  }
};

TEST_F(GuestWithoutMemory, ItsCpusServeDataFromElsewhereAndDataAreNotPlacedThere) {
  const int node = expected("PMOSS_GUEST_MEMORYLESS");
  const std::vector<int> nodes = memory_nodes();
  EXPECT_EQ(nodes.size(), static_cast<std::size_t>(expected("PMOSS_GUEST_NODES")) - 1);
  EXPECT_EQ(std::count(nodes.begin(), nodes.end(), node), 0);
  const int cpu = node * expected("PMOSS_GUEST_CPUS");
  const Cpu* const known_cpu = read_topology().find(cpu);
  ASSERT_NE(known_cpu, nullptr);
  for (const int home : {nodes.front(), nodes.back()}) {
    const runtime::Measurement result = runner_->measure(on({cpu, 0}, home));
    EXPECT_EQ(result.worker_cpus[0], cpu);
    EXPECT_GT(result.worker_queries[0], 0U);
    EXPECT_EQ(result.pages.on(home), result.pages.total());
  }
  const std::string number = std::to_string(node);
  EXPECT_NE(refusal(on({0, 1}, node)).find("node " + number + ", which has no memory"),
            std::string::npos);
  constexpr std::size_t size = std::size_t{1} << 20;
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const int refused = set_placement(memory, size, Placement::on(node));
  EXPECT_NE(refused, 0);
  EXPECT_NE(explain_memory_error(refused).find("no memory"), std::string::npos);
  ::munmap(memory, size);
}

// In a process that an exported placement has put into a unit (test_numa.py): on the CPUs and the
// nodes that the environment names.
class GuestUnit : public Guest {
 protected:
  static std::string text_of(const char* name) {
    const char* const text = std::getenv(name);
    return text == nullptr ? "" : text;
  }

  /// Where pages lie that threads of the unit have touched; each thread looks at its CPU as well.
  static ResidentPages touch_by_threads(const std::vector<int>& cpus) {
    constexpr std::size_t bytes = std::size_t{2} << 20;
    std::array<std::byte*, 4> memory{};
    for (std::byte*& at : memory) {
      void* const mapped =
          ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      EXPECT_NE(mapped, MAP_FAILED);
      ::madvise(mapped, bytes, MADV_NOHUGEPAGE);
      at = static_cast<std::byte*>(mapped);
    }
    std::vector<std::jthread> threads;
    for (std::byte* const at : memory) {
      threads.emplace_back([at, &cpus] {
        EXPECT_EQ(allowed_cpus(), cpus);
        for (std::size_t page = 0; page < bytes; page += 4096) {
          at[page] = std::byte{1};
          EXPECT_EQ(std::count(cpus.begin(), cpus.end(), current_cpu()), 1);
        }
      });
    }
    threads.clear();
    ResidentPages pages;
    for (std::byte* const at : memory) {
      pages += resident_pages(at, bytes);
      ::munmap(at, bytes);
    }
    EXPECT_EQ(pages.total(), memory.size() * bytes / 4096);
    return pages;
  }
};

TEST_F(GuestUnit, ItsThreadsAndItsMemoryAreWhereTheExportSays) {
  const std::vector<int> cpus = parse_cpu_list(text_of("PMOSS_UNIT_CPUS"));
  const std::vector<int> nodes = parse_cpu_list(text_of("PMOSS_UNIT_NODES"));
  if (cpus.empty()) GTEST_SKIP() << "in no unit";
  ASSERT_EQ(allowed_cpus(), cpus);
  const ResidentPages pages = touch_by_threads(cpus);
  EXPECT_EQ(pages.home(Placement::interleaved(nodes)), pages.total());
  if (text_of("PMOSS_UNIT_MEMORY") == "interleave") {
    for (const int node : nodes) {
      const double share = static_cast<double>(pages.on(node)) / static_cast<double>(pages.total());
      EXPECT_NEAR(share, 1.0 / static_cast<double>(nodes.size()), 0.02) << "node " << node;
    }
  }
  if (text_of("PMOSS_UNIT_MEMORY") != "cgroup") return;
  // A group leaves nothing else to the process.
  EXPECT_EQ(memory_nodes(), nodes);
  for (const Cpu& cpu : read_topology().cpus) {
    if (std::count(cpus.begin(), cpus.end(), cpu.id) > 0) continue;
    EXPECT_THROW(pin_thread(cpu.id), AffinityError) << "CPU " << cpu.id;
  }
}

// Last: what the process may use stays cut down.
TEST_F(GuestFaults, WhatTheCpusetLeavesOutIsRefusedWithItsNumber) {
  const std::string groups = "/tmp/cgroup";
  ::mkdir(groups.c_str(), 0755);
  ASSERT_EQ(::mount("cgroup2", groups.c_str(), "cgroup2", 0, nullptr), 0);
  ASSERT_TRUE(write_text(groups + "/cgroup.subtree_control", "+cpuset"));
  ::mkdir((groups + "/few").c_str(), 0755);
  ASSERT_TRUE(write_text(groups + "/few/cpuset.cpus", "0-3"));
  ASSERT_TRUE(write_text(groups + "/few/cpuset.mems", "0-1"));
  ASSERT_TRUE(write_text(groups + "/few/cgroup.procs", std::to_string(::getpid())));
  EXPECT_EQ(allowed_cpus(), (std::vector<int>{0, 1, 2, 3}));
  // As a node without memory: the kernel leaves it out of what may be used.
  EXPECT_EQ(memory_nodes(), (std::vector<int>{0, 1}));
  EXPECT_NE(refusal(on({0, 5}, 0)).find("CPU 5"), std::string::npos);
  EXPECT_NE(refusal(on({0, 1}, 2)).find("node 2, which has no memory"), std::string::npos);
  EXPECT_GT(runner_->measure(on({0, 3}, 1)).completed, 0U);
}

}  // namespace
}  // namespace pmoss::numa
