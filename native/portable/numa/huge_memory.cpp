// Memory from the C++ library.
#include "numa/huge_memory.hpp"

#include <cstring>
#include <new>

namespace pmoss::numa {

std::shared_ptr<std::byte> huge_memory(std::size_t bytes) {
  constexpr std::align_val_t line{64};
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, line));
  std::memset(memory, 0, bytes);
  return {memory, [](std::byte* at) { ::operator delete(at, line); }};
}

}  // namespace pmoss::numa
