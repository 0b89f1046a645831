#include "numa/huge_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace pmoss::numa {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
// Enough that few huge pages are cut by its ends. Only what is touched takes memory.
constexpr std::size_t region_bytes = 16 * huge_page;
constexpr std::size_t line_bytes = 64;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Pages of the kernel, given away from the first on and never twice.
class Region {
 public:
  explicit Region(std::size_t bytes) : bytes_(rounded_up(bytes, huge_page)) {
    // A huge page begins at a multiple of its size. Where the mapping begins is the kernel's
    // choice.
    mapped_bytes_ = bytes_ + huge_page;
    void* const memory = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mapped_ = static_cast<std::byte*>(memory);
    const auto past = reinterpret_cast<std::uintptr_t>(mapped_) % huge_page;
    begin_ = mapped_ + (past == 0 ? 0 : huge_page - past);
    // Advice: without huge pages the memory works all the same.
    ::madvise(begin_, bytes_, MADV_HUGEPAGE);
  }
  ~Region() { ::munmap(mapped_, mapped_bytes_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  bool has(std::size_t bytes) const { return bytes <= bytes_ - used_; }
  std::byte* take(std::size_t bytes) { return begin_ + std::exchange(used_, used_ + bytes); }

 private:
  std::byte* mapped_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte* begin_ = nullptr;
  std::size_t bytes_;
  std::size_t used_ = 0;
};

/// Gives the whole pages of a range back. Other tables lie on the pages at its ends.
void drop_pages(std::byte* memory, std::size_t bytes) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = rounded_up(from, page), last = (from + bytes) / page * page;
  if (first >= last) return;
  std::byte* const pages = memory + (first - from);
  ::madvise(pages, last - first, MADV_DONTNEED);
  // Or the kernel fills the gap again, to make a huge page of it and its neighbours.
  ::madvise(pages, last - first, MADV_NOHUGEPAGE);
}

}  // namespace

std::shared_ptr<std::byte> huge_memory(std::size_t bytes) {
  // Of each thread: no lock that a fork() could leave taken.
  thread_local std::shared_ptr<Region> latest;
  const std::size_t size = rounded_up(bytes, line_bytes);
  std::shared_ptr<Region> region = latest;
  if (!region || !region->has(size)) {
    region = std::make_shared<Region>(std::max(size, region_bytes));
    latest = region;
  }
  std::byte* const memory = region->take(size);
  return {memory, [region = std::move(region), size](std::byte* at) { drop_pages(at, size); }};
}

}  // namespace pmoss::numa
