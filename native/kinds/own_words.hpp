// Memory for keys of ours, apart from all that a library allocates.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <new>
#include <stdexcept>
#include <string>

namespace pmoss::kinds {

/// Words of 64 bits in pages of their own: none holds anything of a library, and all go back to the
/// kernel in the end.
class OwnWords {
 public:
  using Word = std::uint64_t;

  /// Zeros. Throws std::bad_alloc.
  explicit OwnWords(std::size_t count) : count_(count) {
    if (count == 0) return;
    void* const memory =
        ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    words_ = static_cast<Word*>(memory);
  }
  /// Those of a file. Throws std::runtime_error if it cannot be read.
  explicit OwnWords(const std::string& path) : OwnWords(words_in(path)) {
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(words_), static_cast<std::streamsize>(bytes()));
    if (!file) throw std::runtime_error(path + ": cannot be read");
  }
  ~OwnWords() {
    if (words_ != nullptr) ::munmap(words_, bytes());
  }
  OwnWords(const OwnWords&) = delete;
  OwnWords& operator=(const OwnWords&) = delete;

  std::size_t size() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(Word); }
  Word* data() const { return words_; }
  std::uintptr_t first() const { return reinterpret_cast<std::uintptr_t>(words_); }

 private:
  static std::size_t words_in(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) throw std::runtime_error(path + ": cannot be read");
    return static_cast<std::size_t>(status.st_size) / sizeof(Word);
  }

  std::size_t count_;
  Word* words_ = nullptr;
};

}  // namespace pmoss::kinds
