#include "runtime/node_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace pmoss::runtime {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;
constexpr std::size_t page_bytes = 4096;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

NodeMemory::~NodeMemory() {
  for (const Block& block : blocks_) ::munmap(block.begin, block.bytes);
}

void* NodeMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  std::size_t at = rounded_up(used_in_last_, alignment);
  if (blocks_.empty() || at + bytes > blocks_.back().bytes) {
    if (alignment > page_bytes) throw std::bad_alloc();
    const std::size_t size = rounded_up(std::max(bytes, block_bytes), page_bytes);
    blocks_.reserve(blocks_.size() + 1);
    // Writable only once it is placed. Before, it may be one kernel memory area with the stack of
    // another thread. That one's first touch brings a huge page, which would cover a part of this.
    void* const memory = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    // If it is refused, the thread that touches it first is on the node.
    numa::set_placement(memory, size, numa::Placement::on(node_));
    if (::mprotect(memory, size, PROT_READ | PROT_WRITE) != 0) {
      ::munmap(memory, size);
      throw std::bad_alloc();
    }
    blocks_.push_back({static_cast<std::byte*>(memory), size});
    at = 0;
  }
  used_in_last_ = at + bytes;
  return blocks_.back().begin + at;
}

numa::ResidentPages NodeMemory::resident_pages() const {
  numa::ResidentPages pages;
  for (const Block& block : blocks_) pages += numa::resident_pages(block.begin, block.bytes);
  return pages;
}

}  // namespace pmoss::runtime
