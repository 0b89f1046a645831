#include "scan/table.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <system_error>

#include "workload/random.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pmoss::scan {
namespace {

constexpr std::size_t line_bytes = 64;
constexpr double values = 2147483648.0;

/// Without libnuma, which a host of one node need not have.
void bind_to_node(void* memory, std::size_t bytes, int node) {
  constexpr int mode_bind = 2;
  constexpr std::size_t word_bits = 8 * sizeof(unsigned long);
  unsigned long mask[16] = {};
  if (node < 0 || static_cast<std::size_t>(node) >= word_bits * std::size(mask)) {
    throw std::invalid_argument("node is " + std::to_string(node) + "; no kernel has such a node");
  }
  const auto bit = static_cast<std::size_t>(node);
  mask[bit / word_bits] = 1UL << bit % word_bits;
  if (::syscall(SYS_mbind, memory, bytes, mode_bind, mask, word_bits * std::size(mask), 0U) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            "binding memory to node " + std::to_string(node));
  }
}

}  // namespace

Table::Table(std::size_t rows, std::uint64_t seed, int node)
    : rows_(rows), bytes_(std::max(rows, std::size_t{1}) * sizeof(std::int32_t)) {
  if (rows > std::size_t{1} << 32) {
    throw std::invalid_argument("rows is " + std::to_string(rows) + "; at most 2^32");
  }
  void* const memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  try {
    if (node >= 0) bind_to_node(memory, bytes_, node);
  } catch (...) {
    ::munmap(memory_, bytes_);
    throw;
  }
  Random random(seed);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto value = static_cast<std::int32_t>(random.next() >> 33);
    std::memcpy(memory_ + i * sizeof value, &value, sizeof value);
  }
}

Table::~Table() { ::munmap(memory_, bytes_); }

Range Table::range_of(double share) {
  if (!(share >= 0.0 && share <= 1.0)) {
    throw std::invalid_argument("share is " + std::to_string(share) + "; must be from 0 to 1");
  }
  const auto count = static_cast<std::int64_t>(share * values);
  if (count == 0) return {1, 0};  // none
  return {0, static_cast<std::int32_t>(count - 1)};
}

void Table::flush() const noexcept {
#if defined(__x86_64__)
  for (std::size_t i = 0; i < rows_ * sizeof(std::int32_t); i += line_bytes) {
    _mm_clflush(memory_ + i);
  }
  _mm_mfence();
#endif
}

}  // namespace pmoss::scan
