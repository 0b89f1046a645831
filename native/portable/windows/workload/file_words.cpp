// Reads what other systems map.
#include "workload/file_words.hpp"

#include <filesystem>
#include <fstream>

namespace pmoss {

std::shared_ptr<const std::uint64_t[]> words_of_file(const std::string& path,
                                                     std::uint64_t& words) {
  // Python hands over UTF-8.
  const std::filesystem::path name(std::u8string(path.begin(), path.end()));
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(name, error);
  if (error) throw std::invalid_argument("cannot be opened");
  words = word_count(bytes);
  std::shared_ptr<std::uint64_t[]> read = std::make_unique<std::uint64_t[]>(words);
  std::ifstream file(name, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(read.get()), static_cast<std::streamsize>(bytes))) {
    throw std::invalid_argument("cannot be read");
  }
  return read;
}

}  // namespace pmoss
