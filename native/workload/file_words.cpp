#include "workload/file_words.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>

namespace pmoss {
namespace {

struct FileDescriptor {
  explicit FileDescriptor(const std::string& path) : number(::open(path.c_str(), O_RDONLY)) {}
  ~FileDescriptor() {
    if (number >= 0) ::close(number);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int number;
};

}  // namespace

std::shared_ptr<const std::uint64_t[]> words_of_file(const std::string& path,
                                                     std::uint64_t& words) {
  const FileDescriptor file(path);
  struct stat about{};
  if (file.number < 0 || ::fstat(file.number, &about) != 0) {
    throw std::invalid_argument("cannot be opened");
  }
  const auto bytes = static_cast<std::size_t>(about.st_size);
  words = word_count(bytes);
  void* const address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) throw std::invalid_argument("cannot be mapped into memory");
  return {static_cast<const std::uint64_t*>(address), [bytes](const std::uint64_t* mapped) {
            ::munmap(const_cast<std::uint64_t*>(mapped), bytes);
          }};
}

}  // namespace pmoss
