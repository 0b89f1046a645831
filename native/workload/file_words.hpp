// A file as words of 64 bits.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace pmoss {

/// The words of a whole file, read only, and how many there are. Mapped into memory where the
/// system can. Throws std::invalid_argument, without the name of the file, unless it can be read
/// and holds at least one word and no part of one.
std::shared_ptr<const std::uint64_t[]> words_of_file(const std::string& path, std::uint64_t& words);

/// How many words so many bytes are; throws as words_of_file() does.
inline std::uint64_t word_count(std::uint64_t bytes) {
  if (bytes < sizeof(std::uint64_t) || bytes % sizeof(std::uint64_t) != 0) {
    throw std::invalid_argument(std::to_string(bytes) +
                                " bytes: must be a count and 8 bytes per key");
  }
  return bytes / sizeof(std::uint64_t);
}

}  // namespace pmoss
