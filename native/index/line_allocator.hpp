// Memory for a vector that begins at a cache line, so that its lines are the same in every process.
#pragma once

#include <cstddef>
#include <new>

namespace pmoss {

template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t alignment{64};

  LineAllocator() = default;
  template <class Other>
  explicit LineAllocator(const LineAllocator<Other>&) noexcept {}

  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), alignment)); }
  void deallocate(T* memory, std::size_t) noexcept { ::operator delete(memory, alignment); }
  bool operator==(const LineAllocator&) const = default;
};

}  // namespace pmoss
