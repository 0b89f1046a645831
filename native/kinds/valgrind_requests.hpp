// What a program may ask of Valgrind while it runs under it. Elsewhere the requests do nothing.
//
// The sequence of instructions and the numbers are part of Valgrind's interface to programs, which
// does not change. Its headers need not be there when this is built.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pmoss::kinds::valgrind {

/// One request of up to three words.
inline void ask(std::uintptr_t request, std::uintptr_t first = 0, std::uintptr_t second = 0) {
  [[maybe_unused]] const volatile std::uintptr_t words[] = {request, first, second, 0, 0, 0};
#if defined(__x86_64__)
  std::uintptr_t answer = 0;
  asm volatile(
      "rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
      "xchgq %%rbx, %%rbx"
      : "+d"(answer)
      : "a"(words)
      : "cc", "memory");
#elif defined(__aarch64__)
  register std::uintptr_t answer asm("x3") = 0;
  register const volatile std::uintptr_t* asked asm("x4") = words;
  asm volatile(
      "ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\tror x12, x12, #61\n\t"
      "orr x10, x10, x10"
      : "+r"(answer)
      : "r"(asked)
      : "cc", "memory");
#endif
}

/// The first request of a tool that is named by two letters.
constexpr std::uintptr_t of_tool(char first, char second) {
  return static_cast<std::uintptr_t>(first) << 24 | static_cast<std::uintptr_t>(second) << 16;
}

/// Translates code anew when it runs next.
inline void forget_code(std::uintptr_t first, std::size_t bytes) { ask(0x1002, first, bytes); }

/// DRD: prints every access to a range from now on.
inline void trace(std::uintptr_t first, std::size_t bytes) {
  ask(of_tool('D', 'R') + 4, first, bytes);
}

/// Callgrind: counts from now on; ends that; writes what was counted under a name and forgets it.
inline void start_counting() { ask(of_tool('C', 'T') + 4); }
inline void stop_counting() { ask(of_tool('C', 'T') + 5); }
inline void write_counts(const char* name) {
  ask(of_tool('C', 'T') + 3, reinterpret_cast<std::uintptr_t>(name));
}

}  // namespace pmoss::kinds::valgrind
