// Uniform lookups in the B+-tree beside absl::btree_map, in one process and in alternating rounds.
//
//   index_bench [--keys N] [--rounds N] [--operations N] [--slices N] [--pages 4k|2m]
//               [--isa scalar|avx2|avx512] [--json PATH]
//
// Rates are operations per second of the thread's CPU time, which other processes do not disturb.
// Ratios are taken within a round. Values are median [min..max] over the rounds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "index/btree.hpp"
#include "workload/keyspace.hpp"
#include "workload/random.hpp"

#ifdef PMOSS_HAVE_ABSL
#include "absl/container/btree_map.h"
#endif

namespace {

struct Arguments {
  std::uint64_t keys = 30'000'000;
  unsigned rounds = 7;
  std::uint64_t operations = 2'000'000;
  std::uint32_t slices = 256;
  bool huge_pages = true;
  pmoss::Isa isa = pmoss::best_isa();
  std::string json;
};

const char* name_of(pmoss::Isa isa) {
  switch (isa) {
    case pmoss::Isa::scalar:
      return "scalar";
    case pmoss::Isa::avx2:
      return "avx2";
    default:
      return "avx512";
  }
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc) throw std::invalid_argument(option + " needs a value");
    const std::string value = argv[i + 1];
    if (option == "--keys") {
      arguments.keys = std::stoull(value);
    } else if (option == "--rounds") {
      arguments.rounds = static_cast<unsigned>(std::stoul(value));
    } else if (option == "--operations") {
      arguments.operations = std::stoull(value);
    } else if (option == "--slices") {
      arguments.slices = static_cast<std::uint32_t>(std::stoul(value));
    } else if (option == "--pages" && (value == "4k" || value == "2m")) {
      arguments.huge_pages = value == "2m";
    } else if (option == "--isa" && (value == "scalar" || value == "avx2" || value == "avx512")) {
      arguments.isa = value == "scalar" ? pmoss::Isa::scalar
                      : value == "avx2" ? pmoss::Isa::avx2
                                        : pmoss::Isa::avx512;
    } else if (option == "--json") {
      arguments.json = value;
    } else {
      throw std::invalid_argument("unknown option " + option + " " + value);
    }
  }
  if (arguments.keys == 0 || arguments.rounds == 0 || arguments.operations == 0) {
    throw std::invalid_argument("--keys, --rounds and --operations must be at least 1");
  }
  return arguments;
}

/// Forces a value into a register; without this the compiler deletes the load of a payload that
/// nobody reads, and with it a cache miss.
inline void consume(std::uint64_t value) { asm volatile("" : : "r"(value)); }

double thread_cpu_seconds() {
  timespec time;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// One way of doing the lookups: takes the keys, returns how many it found.
struct Candidate {
  std::string name;
  std::function<std::uint64_t(const std::vector<std::uint64_t>&)> run;
  std::vector<double> rates = {};
  std::vector<double> wall_per_cpu = {};
  std::uint64_t hits = 0;
  std::uint64_t lookups = 0;
};

struct Spread {
  double median, low, high;
};

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
  return {median, values.front(), values.back()};
}

std::string json_of(const Spread& spread) {
  std::ostringstream out;
  out << "{\"median\": " << spread.median << ", \"min\": " << spread.low
      << ", \"max\": " << spread.high << "}";
  return out.str();
}

std::string line_with(const char* path, const std::string& start) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(start, 0) == 0) return line.substr(line.find(':') + 1);
  }
  return "";
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "unknown" : text.substr(first);
}

/// Inserts all records in record order, which is a random order of the keys; CPU seconds.
template <class Insert>
double load(std::uint64_t keys, Insert insert) {
  const double start = thread_cpu_seconds();
  for (std::uint64_t record = 0; record < keys; ++record) {
    insert(pmoss::key_of_record(record, 0), record);
  }
  return thread_cpu_seconds() - start;
}

int run(const Arguments& arguments) {
  pmoss::set_search_isa(arguments.isa);
  pmoss::BTree tree({.slices = arguments.slices, .huge_pages = arguments.huge_pages});
  std::vector<std::pair<std::string, double>> loads;
  std::cerr << "loading " << arguments.keys << " keys ...\n";
  loads.emplace_back("own, one at a time",
                     load(arguments.keys, [&](std::uint64_t key, std::uint64_t value) {
                       tree.insert(key, value);
                     }));
  {
    // The same once more into a tree of its own, which is gone before anything is measured.
    pmoss::BTree again({.slices = arguments.slices, .huge_pages = arguments.huge_pages});
    constexpr std::size_t batch = 1024;
    std::vector<std::uint64_t> keys, values;
    const auto flush = [&] {
      again.insert_batch(keys.data(), values.data(), keys.size());
      keys.clear();
      values.clear();
    };
    loads.emplace_back("own, in batches",
                       load(arguments.keys, [&](std::uint64_t key, std::uint64_t value) {
                         keys.push_back(key);
                         values.push_back(value);
                         if (keys.size() == batch) flush();
                       }));
    flush();
  }
  std::size_t bytes = 0;
  for (std::uint32_t s = 0; s < tree.slices(); ++s) bytes += tree.arena(s).bytes_used();
  const double bytes_per_key = static_cast<double>(bytes) / static_cast<double>(arguments.keys);
  // What the kernel granted, not what was asked for.
  const auto huge_kib =
      std::strtoull(line_with("/proc/self/smaps_rollup", "AnonHugePages:").c_str(), nullptr, 10);
  const double huge_share = std::min(1.0, static_cast<double>(huge_kib) * 1024.0 /
                                              static_cast<double>(std::max<std::size_t>(bytes, 1)));

  std::vector<Candidate> candidates;
  candidates.push_back({"own, one at a time", [&](const std::vector<std::uint64_t>& keys) {
                          std::uint64_t hits = 0;
                          for (const std::uint64_t key : keys) {
                            std::uint64_t value = 0;
                            hits += tree.lookup(key, value) ? 1 : 0;
                            consume(value);
                          }
                          return hits;
                        }});
  candidates.push_back({"own, batches of 64", [&](const std::vector<std::uint64_t>& keys) {
                          constexpr std::size_t batch = 64;
                          std::uint64_t hits = 0;
                          std::uint64_t values[batch] = {};
                          bool found[batch];
                          for (std::size_t i = 0; i < keys.size(); i += batch) {
                            const std::size_t n = std::min(batch, keys.size() - i);
                            hits += tree.lookup_batch(keys.data() + i, n, values, found);
                            for (std::size_t j = 0; j < n; ++j) consume(values[j]);
                          }
                          return hits;
                        }});
#ifdef PMOSS_HAVE_ABSL
  absl::btree_map<std::uint64_t, std::uint64_t> peer;
  loads.emplace_back("absl", load(arguments.keys, [&](std::uint64_t key, std::uint64_t value) {
                       peer.insert_or_assign(key, value);
                     }));
  candidates.push_back({"absl::btree_map", [&](const std::vector<std::uint64_t>& keys) {
                          std::uint64_t hits = 0;
                          for (const std::uint64_t key : keys) {
                            const auto found = peer.find(key);
                            if (found == peer.end()) continue;
                            consume(found->second);
                            ++hits;
                          }
                          return hits;
                        }});
#else
  std::cerr << "built without Abseil: no peer to compare with\n";
#endif

  std::vector<std::uint64_t> keys(arguments.operations);
  const auto measure = [&](Candidate& candidate, std::uint64_t seed, bool counts) {
    // Other keys each time: nothing is left in a cache from the candidate before.
    pmoss::Random random(seed);
    for (auto& key : keys) key = pmoss::key_of_record(random.below(arguments.keys), 0);
    const double wall = wall_seconds();
    const double cpu = thread_cpu_seconds();
    const std::uint64_t hits = candidate.run(keys);
    const double cpu_spent = thread_cpu_seconds() - cpu;
    const double wall_spent = wall_seconds() - wall;
    if (!counts) return;
    candidate.rates.push_back(static_cast<double>(keys.size()) / cpu_spent);
    candidate.wall_per_cpu.push_back(wall_spent / cpu_spent);
    candidate.hits += hits;
    candidate.lookups += keys.size();
  };
  const std::size_t n = candidates.size();
  for (std::size_t i = 0; i < n; ++i) measure(candidates[i], i, false);  // warm-up
  for (unsigned round = 0; round < arguments.rounds; ++round) {
    for (std::size_t i = 0; i < n; ++i) {
      measure(candidates[(round + i) % n], n + round * n + i, true);
    }
  }

  const std::string cpu = trimmed(line_with("/proc/cpuinfo", "model name"));
  const std::string pages = arguments.huge_pages ? "2 MiB asked for" : "4 KiB";
  std::cout << std::fixed << std::setprecision(2);
  std::cout << "uniform lookups, one thread, " << arguments.keys << " keys, " << arguments.rounds
            << " rounds of " << arguments.operations << "\n"
            << "own tree: " << arguments.slices << " slices, pages of " << pages << " ("
            << 100.0 * huge_share << " % huge), search " << name_of(pmoss::search_isa()) << ", "
            << bytes_per_key << " B/key; absl: pages as malloc gives them\n"
            << "cpu: " << cpu << ", " << std::thread::hardware_concurrency() << " cores\n\n"
            << "M lookups per CPU second\n";
  bool all_found = true;
  for (const auto& candidate : candidates) {
    const Spread rate = spread_of(candidate.rates);
    const Spread wall = spread_of(candidate.wall_per_cpu);
    std::cout << std::left << std::setw(22) << candidate.name << std::right << std::setw(7)
              << rate.median / 1e6 << " [" << rate.low / 1e6 << ".." << rate.high / 1e6
              << "]  hits " << candidate.hits << " of " << candidate.lookups << "  wall/cpu "
              << wall.median << "\n";
    all_found = all_found && candidate.hits == candidate.lookups;
  }
  for (const auto& [name, seconds] : loads) {
    std::cout << "load " << name << ": " << seconds << " CPU s\n";
  }

  std::ostringstream ratios;
#ifdef PMOSS_HAVE_ABSL
  const auto ratio_of = [&](const Candidate& own) {
    std::vector<double> values;
    for (std::size_t r = 0; r < own.rates.size(); ++r) {
      values.push_back(own.rates[r] / candidates.back().rates[r]);
    }
    return spread_of(values);
  };
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const Spread ratio = ratio_of(candidates[i]);
    std::cout << "ratio to absl, " << candidates[i].name << ": " << ratio.median << " ["
              << ratio.low << ".." << ratio.high << "]\n";
    ratios << (i > 0 ? ", " : "") << "\"" << candidates[i].name << "\": " << json_of(ratio);
  }
#endif

  if (!arguments.json.empty()) {
    std::ofstream out(arguments.json);
    out << "{\n  \"benchmark\": \"uniform lookups, one thread\",\n"
        << "  \"keys\": " << arguments.keys << ",\n  \"rounds\": " << arguments.rounds
        << ",\n  \"lookups_per_round\": " << arguments.operations
        << ",\n  \"slices\": " << arguments.slices << ",\n  \"pages\": \"" << pages
        << "\",\n  \"huge_page_share\": " << huge_share << ",\n  \"search\": \""
        << name_of(pmoss::search_isa()) << "\",\n  \"bytes_per_key\": " << bytes_per_key
        << ",\n  \"cpu\": \"" << cpu << "\",\n  \"load_cpu_seconds\": {";
    for (std::size_t i = 0; i < loads.size(); ++i) {
      out << (i > 0 ? ", " : "") << "\"" << loads[i].first << "\": " << loads[i].second;
    }
    out << "},\n  \"lookups_per_cpu_second\": {";
    for (std::size_t i = 0; i < n; ++i) {
      const Candidate& candidate = candidates[i];
      out << (i > 0 ? "," : "") << "\n    \"" << candidate.name
          << "\": {\"rate\": " << json_of(spread_of(candidate.rates))
          << ", \"wall_per_cpu\": " << json_of(spread_of(candidate.wall_per_cpu))
          << ", \"hits\": " << candidate.hits << ", \"lookups\": " << candidate.lookups << "}";
    }
    out << "\n  },\n  \"ratio_to_absl\": {" << ratios.str() << "}\n}\n";
    if (!out) throw std::runtime_error("cannot write " + arguments.json);
  }
  if (!all_found) std::cerr << "some keys were not found: the rates mean nothing\n";
  return all_found ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "index_bench: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
}
