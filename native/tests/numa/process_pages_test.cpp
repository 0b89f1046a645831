// What the kernel lists of a process's own pages.
#include "numa/process_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace pmoss::numa {
namespace {

TEST(ProcessPages, OwnPagesAreCountedByNode) {
  const std::filesystem::path list = testing::TempDir() + "numa_maps." + std::to_string(::getpid());
  std::ofstream(list) << "7f00 default file=/usr/lib/libc.so.6 mapped=9 N0=9 kernelpagesize_kB=4\n"
                         "7f10 default heap anon=5 dirty=5 N0=2 N1=3 kernelpagesize_kB=4\n"
                         "7f20 bind:1 anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n"
                         "7f30 default file=/memfd:lmdb\\040(deleted) dirty=7 N3=7 "
                         "kernelpagesize_kB=4\n"
                         "7f40 default Nx=4 N=4 N1 anon= N99999999999=1\n";
  const ResidentPages pages = process_pages(list);
  std::filesystem::remove(list);
  EXPECT_EQ(pages.error_number, 0);
  EXPECT_EQ(pages.on_node, (std::map<int, std::uint64_t>{{0, 2}, {1, 3 + 1024}, {3, 7}}));
}

TEST(ProcessPages, AKernelThatListsNothingIsAnError) {
  EXPECT_EQ(process_pages("/nowhere/numa_maps").error_number, ENOENT);
}

TEST(ProcessPages, WhatIsWrittenToShows) {
  const ResidentPages before = process_pages();
  if (before.error_number != 0) GTEST_SKIP() << "this kernel lists no pages by node";
  constexpr std::size_t bytes = std::size_t{8} << 20;
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, bytes);
  std::int64_t sum = 0;
  for (const auto& [node, pages] : grown(before, process_pages())) sum += pages;
  ::munmap(memory, bytes);
  EXPECT_GE(sum, static_cast<std::int64_t>(bytes / 4096) - 16);
}

}  // namespace
}  // namespace pmoss::numa
