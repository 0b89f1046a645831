#include "scan/table.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

#include "numa/memory.hpp"
#include "workload/random.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pmoss::scan {
namespace {

[[maybe_unused]] constexpr std::size_t line_bytes = 64;
constexpr double values = 2147483648.0;

}  // namespace

Table::Table(std::size_t rows, std::uint64_t seed, int node)
    : rows_(rows), bytes_(std::max(rows, std::size_t{1}) * sizeof(std::int32_t)) {
  if (rows > std::size_t{1} << 32) {
    throw std::invalid_argument("rows is " + std::to_string(rows) + "; at most 2^32");
  }
  // Writable once it is placed: no huge page of a neighbour covers a part of it before.
  void* const memory = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  try {
    if (node >= 0) {
      const int error = numa::set_placement(memory, bytes_, numa::Placement::on(node));
      if (error != 0) {
        throw std::system_error(
            error, std::generic_category(),
            "node " + std::to_string(node) + ": " + numa::explain_memory_error(error));
      }
    }
    if (::mprotect(memory, bytes_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
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
  if (count == 0) return {-1, -1};  // matches nothing, but every value has to be looked at
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
