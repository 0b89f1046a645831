// What memory.hpp asks of the kernel, by libnuma; and the question for huge pages, which that
// lacks.
#include <fcntl.h>
#include <numa.h>
#include <numaif.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>

#include "numa/memory.hpp"

namespace pmoss::numa {
namespace {

struct FreeMask {
  void operator()(bitmask* mask) const noexcept { ::numa_bitmask_free(mask); }
};
using NodeMask = std::unique_ptr<bitmask, FreeMask>;

/// False for a number that no node of this kernel can have.
bool add(bitmask& mask, int node) noexcept {
  if (node < 0 || static_cast<unsigned long>(node) >= mask.size) return false;
  ::numa_bitmask_setbit(&mask, static_cast<unsigned>(node));
  return true;
}

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

}  // namespace

std::vector<int> memory_nodes() {
  std::vector<int> nodes;
  // Without NUMA libnuma's other functions must not be called.
  if (::numa_available() >= 0) {
    const NodeMask allowed(::numa_get_mems_allowed());
    for (int node = 0; node <= ::numa_max_node(); ++node) {
      if (::numa_bitmask_isbitset(allowed.get(), static_cast<unsigned>(node)) != 0) {
        nodes.push_back(node);
      }
    }
  }
  if (nodes.empty()) nodes.push_back(0);
  return nodes;
}

int refused_placement() {
  constexpr std::size_t page_bytes = 4096;
  void* const page =
      ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::bad_alloc();
  const auto unmap = [](void* at) { ::munmap(at, page_bytes); };
  const std::unique_ptr<void, decltype(unmap)> owner(page, unmap);
  // The three calls of a measurement that places data.
  if (const int error = set_placement(page, page_bytes, {}); error != 0) return error;
  *static_cast<volatile std::byte*>(page) = std::byte{1};
  if (const int error = resident_pages(page, page_bytes).error_number; error != 0) return error;
  return ::get_mempolicy(nullptr, nullptr, 0, nullptr, 0) == 0 ? 0 : errno;
}

int set_placement(void* address, std::size_t bytes, const Placement& placement) noexcept {
  if (placement.kind == Placement::Kind::first_touch) {
    return ::mbind(address, bytes, MPOL_DEFAULT, nullptr, 0, 0) == 0 ? 0 : errno;
  }
  const NodeMask mask(::numa_allocate_nodemask());
  if (!mask) return ENOMEM;
  // Not MPOL_BIND, under which a full node kills the process.
  const bool single = placement.kind == Placement::Kind::node;
  if (single && !add(*mask, placement.node)) return EINVAL;
  for (const int node : placement.nodes) {
    if (!single && !add(*mask, node)) return EINVAL;
  }
  // The kernel takes the number of bits plus one.
  return ::mbind(address, bytes, single ? MPOL_PREFERRED : MPOL_INTERLEAVE, mask->maskp,
                 mask->size + 1, 0) == 0
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
  return [](std::size_t count, void** pages, const int* nodes, int* status) -> long {
    return ::numa_move_pages(0, count, pages, nodes, status, nodes != nullptr ? MPOL_MF_MOVE : 0);
  };
}

}  // namespace pmoss::numa
