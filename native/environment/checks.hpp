// Refusing arguments by name.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace pmoss::environment {

[[noreturn]] inline void refuse(const std::string& text) { throw std::invalid_argument(text); }

inline void check_length(const char* name, std::size_t length, std::size_t expected) {
  if (length != expected) {
    refuse("length of " + std::string(name) + " = " + std::to_string(length) + ": must be " +
           std::to_string(expected));
  }
}

inline void check_least(const char* name, int value, int least) {
  if (value < least) {
    refuse(std::string(name) + " = " + std::to_string(value) + ": must be at least " +
           std::to_string(least));
  }
}

inline std::size_t size(int value) { return static_cast<std::size_t>(value); }

}  // namespace pmoss::environment
