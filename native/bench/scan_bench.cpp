// Read bandwidth of one core, and how much of it a scan gets.
//   scan_bench [MB] [rounds]
// Prints one line per contestant: name, the best and the median GB/s. Rounds are interleaved, so
// that what else runs on the machine meets all alike. The table is far larger than the caches.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "scan/scan.hpp"
#include "scan/table.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using namespace pmoss;

volatile std::uint64_t sink;

/// What the compiler makes of a plain loop, at the baseline of this build.
std::uint64_t count_plain(const std::int32_t* values, std::size_t rows, scan::Range range) {
  std::uint64_t matches = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    matches += values[i] >= range.low && values[i] <= range.high ? 1 : 0;
  }
  return matches;
}

/// The plainest scan that writes positions.
std::size_t scan_plain(const std::int32_t* values, std::size_t rows, scan::Range range,
                       std::uint32_t* positions) {
  std::size_t matches = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    if (values[i] >= range.low && values[i] <= range.high) {
      positions[matches++] = static_cast<std::uint32_t>(i);
    }
  }
  return matches;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) std::uint64_t read_avx512(const std::byte* at,
                                                             std::size_t bytes) {
  __m512i sums[8] = {};
  for (std::size_t i = 0; i + 512 <= bytes; i += 512) {
    for (std::size_t k = 0; k < 8; ++k) {
      sums[k] = _mm512_xor_si512(sums[k], _mm512_loadu_si512(at + i + 64 * k));
    }
  }
  for (std::size_t k = 1; k < 8; ++k) sums[0] = _mm512_xor_si512(sums[0], sums[k]);
  // Not _mm512_reduce_add_epi64: GCC 12 warns of its own header.
  std::uint64_t parts[8];
  _mm512_storeu_si512(parts, sums[0]);
  return std::accumulate(std::begin(parts), std::end(parts), std::uint64_t{0});
}
__attribute__((target("avx2"))) std::uint64_t read_avx2(const std::byte* at, std::size_t bytes) {
  __m256i sums[8] = {};
  for (std::size_t i = 0; i + 256 <= bytes; i += 256) {
    for (std::size_t k = 0; k < 8; ++k) {
      const auto* const vector = reinterpret_cast<const __m256i*>(at + i + 32 * k);
      sums[k] = _mm256_xor_si256(sums[k], _mm256_loadu_si256(vector));
    }
  }
  for (std::size_t k = 1; k < 8; ++k) sums[0] = _mm256_xor_si256(sums[0], sums[k]);
  return static_cast<std::uint64_t>(_mm256_extract_epi64(sums[0], 0));
}
#endif

std::uint64_t read_scalar(const std::byte* at, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, at + i, 8);
    sum ^= word;
  }
  return sum;
}

std::uint64_t read_all(const std::byte* at, std::size_t bytes) {
#if defined(__x86_64__)
  if (best_isa() == Isa::avx512) return read_avx512(at, bytes);
  if (best_isa() == Isa::avx2) return read_avx2(at, bytes);
#endif
  return read_scalar(at, bytes);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 512;
  const std::size_t rounds = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 9;
  const std::size_t rows = megabytes * 1'000'000 / sizeof(std::int32_t);
  const scan::Table table(rows, 1);
  const scan::Column column = table.column();
  const std::size_t bytes = rows * sizeof(std::int32_t);
  // The table is mapped: its values are aligned.
  const auto* const values = reinterpret_cast<const std::int32_t*>(column.values);
  std::vector<std::byte> copy(bytes);
  std::vector<std::uint32_t> positions(rows + scan::kernel_slack);
  const scan::Range one_in_a_million = scan::Table::range_of(1e-6);
  const scan::Range one_percent = scan::Table::range_of(1e-2);
  const auto engine = scan::make_thread_engine();
  scan::BlockBuffers buffers(128 * 1024);

  struct Contestant {
    std::string name;
    std::function<void()> work;
    std::vector<double> gb_per_s{};
  };
  std::vector<Contestant> all{
      {"read", [&] { sink = read_all(column.values, bytes); }},
      {"memcpy", [&] { std::memcpy(copy.data(), column.values, bytes); }},
      {"plain-count", [&] { sink = count_plain(values, rows, one_in_a_million); }},
      {"plain-scan", [&] { sink = scan_plain(values, rows, one_in_a_million, positions.data()); }},
      {"scan", [&] { sink = scan::scan_by_loads(column, one_in_a_million, positions).matches; }},
      {"scan-1%", [&] { sink = scan::scan_by_loads(column, one_percent, positions).matches; }},
      {"scan-thread-engine",
       [&] {
         sink = scan::scan_by_copies(column, one_in_a_million, positions, *engine, buffers).matches;
       }},
  };
  using clock = std::chrono::steady_clock;
  for (std::size_t round = 0; round <= rounds; ++round) {
    for (Contestant& contestant : all) {
      const auto start = clock::now();
      contestant.work();
      const double seconds = std::chrono::duration<double>(clock::now() - start).count();
      // The first round touches all memory.
      if (round > 0) contestant.gb_per_s.push_back(static_cast<double>(bytes) / seconds / 1e9);
    }
  }
  for (Contestant& contestant : all) {
    std::sort(contestant.gb_per_s.begin(), contestant.gb_per_s.end());
    std::printf("%s %.3f %.3f\n", contestant.name.c_str(), contestant.gb_per_s.back(),
                contestant.gb_per_s[contestant.gb_per_s.size() / 2]);
  }
}
