// Accesses per second of three levels of exact LRU (32 KiB of 8 ways, 1 MiB and 32 MiB of 16 ways)
// beside a plain implementation, on the same stream in alternating rounds: half of it uniform over
// 1 GiB, half Zipf 0.99 over the same lines.
//
//   lru_bench [--accesses N] [--rounds N] [--json PATH] [--write-stream PATH]
//   lru_bench --replay PATH --times N
//
// Rates are accesses per second of CPU time. --replay reads a written stream and loads every
// address once per time: the program that cachegrind simulates as a further peer.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "simulator/lru_levels.hpp"
#include "workload/random.hpp"
#include "workload/zipf.hpp"

namespace {

using pmoss::simulator::CacheShape;
using pmoss::simulator::LruLevels;

constexpr std::uint64_t line_bytes = 64;
constexpr std::uint64_t lines = (std::uint64_t{1} << 30) / line_bytes;
constexpr CacheShape shapes[] = {{64, 8}, {1024, 16}, {32'768, 16}};

std::vector<std::uint32_t> make_stream(std::size_t accesses) {
  pmoss::Random random(1);
  const pmoss::ZipfSampler zipf(lines, 0.99);
  std::vector<std::uint32_t> stream(accesses);
  for (std::uint32_t& line : stream) {
    const bool uniform = random.below(2) == 0;
    // Odd numbers permute the lines, so that the hot ones lie apart.
    line = static_cast<std::uint32_t>(uniform ? random.below(lines)
                                              : zipf(random) * 0x9e3779b1 % lines);
  }
  return stream;
}

/// A peer as one would first write it: whole tags and times of last use, compared one by one.
class PlainCache {
 public:
  explicit PlainCache(CacheShape shape)
      : sets_(shape.sets), ways_(static_cast<std::size_t>(shape.ways)), entries_(sets_ * ways_) {}

  /// Whether the line was there; it is now.
  bool access(std::uint64_t line) {
    Entry* const set = &entries_[line % sets_ * ways_];
    Entry* oldest = set;
    ++now_;
    for (Entry* entry = set; entry != set + ways_; ++entry) {
      if (entry->tag == line) {
        entry->used = now_;
        return true;
      }
      if (entry->used < oldest->used) oldest = entry;
    }
    *oldest = {line, now_};
    return false;
  }

 private:
  struct Entry {
    std::uint64_t tag = ~std::uint64_t{0};
    std::uint64_t used = 0;
  };
  std::size_t sets_, ways_;
  std::vector<Entry> entries_;
  std::uint64_t now_ = 0;
};

class PlainLevels {
 public:
  void access(const std::vector<std::uint32_t>& stream) {
    for (const std::uint32_t line : stream) {
      for (std::size_t level = 0; level < 3 && !levels_[level].access(line); ++level) {
        ++misses_[level];
      }
    }
  }
  const std::array<std::uint64_t, 3>& misses() const { return misses_; }

 private:
  std::array<std::uint64_t, 3> misses_{};
  std::array<PlainCache, 3> levels_{PlainCache(shapes[0]), PlainCache(shapes[1]),
                                    PlainCache(shapes[2])};
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <typename Levels>
double rate(Levels& levels, const std::vector<std::uint32_t>& stream) {
  const double start = cpu_seconds();
  levels.access(stream);
  return static_cast<double>(stream.size()) / (cpu_seconds() - start);
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "[" + text + "]";
}

void replay(const std::string& path, unsigned times) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::uint32_t> stream(static_cast<std::size_t>(file.tellg()) / 4);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(stream.data()),
            static_cast<std::streamsize>(stream.size() * 4));
  void* const memory = mmap(nullptr, lines * line_bytes, PROT_READ,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map 1 GiB");
  const auto* const bytes = static_cast<const volatile char*>(memory);
  for (unsigned i = 0; i < times; ++i) {
    for (const std::uint32_t line : stream) static_cast<void>(bytes[line * line_bytes]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t accesses = 8'000'000;
  unsigned rounds = 5, times = 1;
  std::string json, write_to, replay_from;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i], value = argv[i + 1];
    if (option == "--accesses") accesses = std::stoull(value);
    if (option == "--rounds") rounds = static_cast<unsigned>(std::stoul(value));
    if (option == "--times") times = static_cast<unsigned>(std::stoul(value));
    if (option == "--json") json = value;
    if (option == "--write-stream") write_to = value;
    if (option == "--replay") replay_from = value;
  }
  if (!replay_from.empty()) {
    replay(replay_from, times);
    return 0;
  }
  const std::vector<std::uint32_t> stream = make_stream(accesses);
  if (!write_to.empty()) {
    std::ofstream(write_to, std::ios::binary)
        .write(reinterpret_cast<const char*>(stream.data()),
               static_cast<std::streamsize>(stream.size() * 4));
  }
  LruLevels own(shapes);
  PlainLevels plain;
  std::vector<double> own_rates, plain_rates;
  for (unsigned round = 0; round <= rounds; ++round) {
    const double a = rate(own, stream), b = rate(plain, stream);
    if (round == 0) continue;  // fills the caches
    own_rates.push_back(a);
    plain_rates.push_back(b);
    std::printf("own %6.1f M/s, plain %6.1f M/s\n", a * 1e-6, b * 1e-6);
  }
  const double all = static_cast<double>(accesses) * (rounds + 1);
  std::string shares[2];
  for (std::size_t level = 0; level < 3; ++level) {
    const std::string comma = level == 0 ? "" : ", ";
    shares[0] += comma + std::to_string(static_cast<double>(own.misses()[level]) / all);
    shares[1] += comma + std::to_string(static_cast<double>(plain.misses()[level]) / all);
  }
  std::printf("misses per access: own %s; plain %s\n", shares[0].c_str(), shares[1].c_str());
  if (!json.empty()) {
    std::ofstream(json) << "{\"own\": " << list(own_rates) << ", \"plain\": " << list(plain_rates)
                        << ", \"own_misses\": [" << shares[0] << "], \"plain_misses\": ["
                        << shares[1] << "]}\n";
  }
}
