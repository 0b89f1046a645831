// The system calls behind memory.hpp.
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <new>

#include "numa/memory.hpp"

namespace pmoss::numa {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t most_nodes = 1024;
constexpr std::size_t word_bits = 8 * sizeof(unsigned long);

class NodeMask {
 public:
  void add(int node) noexcept {
    const auto bit = static_cast<std::size_t>(node);
    words_[bit / word_bits] |= 1UL << (bit % word_bits);
  }
  bool contains(std::size_t bit) const noexcept {
    return (words_[bit / word_bits] >> (bit % word_bits)) & 1UL;
  }
  unsigned long* words() noexcept { return words_.data(); }
  /// The kernel takes the number of bits plus one.
  static constexpr unsigned long bits = most_nodes + 1;

 private:
  std::array<unsigned long, most_nodes / word_bits + 1> words_{};
};

// PAGEMAP_SCAN of linux/fs.h, which the headers of older systems lack.
struct ScanRequest {
  std::uint64_t size = sizeof(ScanRequest);
  std::uint64_t flags, start, end, walked_to, regions, most_regions, most_pages;
  std::uint64_t inverted, all_of, any_of, reported;
};
struct Region {
  std::uint64_t start, end, categories;
};
constexpr unsigned long scan_page_map = _IOWR('f', 16, ScanRequest);
constexpr std::uint64_t page_is_huge = std::uint64_t{1} << 6;
constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;

bool in_mask(int node) noexcept { return node >= 0 && static_cast<std::size_t>(node) < most_nodes; }

}  // namespace

std::vector<int> memory_nodes() {
  NodeMask mask;
  std::vector<int> nodes;
  int unused = 0;
  if (::syscall(SYS_get_mempolicy, &unused, mask.words(), NodeMask::bits, nullptr,
                MPOL_F_MEMS_ALLOWED) == 0) {
    for (std::size_t node = 0; node < most_nodes; ++node) {
      if (mask.contains(node)) nodes.push_back(static_cast<int>(node));
    }
  }
  if (nodes.empty()) nodes.push_back(0);
  return nodes;
}

int refused_placement() {
  void* const page =
      ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::bad_alloc();
  int error = 0;
  try {
    // As set_placement() does where a node was asked for.
    if (::syscall(SYS_mbind, page, page_bytes, MPOL_DEFAULT, nullptr, 0UL, 0U) != 0) error = errno;
    if (error == 0) {
      *static_cast<volatile std::byte*>(page) = std::byte{1};
      error = resident_pages(page, page_bytes).error_number;
    }
    if (error == 0) {
      NodeMask mask;
      int unused = 0;
      if (::syscall(SYS_get_mempolicy, &unused, mask.words(), NodeMask::bits, nullptr,
                    MPOL_F_MEMS_ALLOWED) != 0) {
        error = errno;
      }
    }
  } catch (...) {
    ::munmap(page, page_bytes);
    throw;
  }
  ::munmap(page, page_bytes);
  return error;
}

int set_placement(void* address, std::size_t bytes, const Placement& placement) noexcept {
  NodeMask mask;
  int mode = MPOL_DEFAULT;
  switch (placement.kind) {
    case Placement::Kind::first_touch:
      break;
    case Placement::Kind::node:
      if (!in_mask(placement.node)) return EINVAL;
      // Not MPOL_BIND, under which a full node kills the process.
      mode = MPOL_PREFERRED;
      mask.add(placement.node);
      break;
    case Placement::Kind::interleaved:
      mode = MPOL_INTERLEAVE;
      for (const int node : placement.nodes) {
        if (!in_mask(node)) return EINVAL;
        mask.add(node);
      }
      break;
  }
  const bool named = mode != MPOL_DEFAULT;
  return ::syscall(SYS_mbind, address, bytes, mode, named ? mask.words() : nullptr,
                   named ? NodeMask::bits : 0UL, 0U) == 0
             ? 0
             : errno;
}

bool is_huge_page(const void* address) noexcept {
  // Of the process as it is now: a fork must not ask about its parent.
  const int map = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (map < 0) return false;
  Region region{};
  ScanRequest request{};
  request.start = reinterpret_cast<std::uintptr_t>(address);
  request.end = request.start + huge_page_bytes;
  request.regions = reinterpret_cast<std::uintptr_t>(&region);
  request.most_regions = 1;
  request.all_of = request.reported = page_is_huge;
  const long regions = ::ioctl(map, scan_page_map, &request);
  ::close(map);
  return regions == 1 && region.start == request.start && region.end == request.end;
}

PageCall system_page_call() {
  return [](std::size_t count, void** pages, const int* nodes, int* status) {
    return ::syscall(SYS_move_pages, 0, count, pages, nodes, status,
                     nodes != nullptr ? MPOL_MF_MOVE : 0);
  };
}

}  // namespace pmoss::numa
