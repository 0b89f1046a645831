// The B+-tree beside absl::btree_map, in one process and in alternating rounds: uniform lookups,
// lookups of which each waits for the last one, and three mixes with zipf(0.99) choices: half
// lookups, half updates; half lookups, half inserts of new keys; 95 % scans of 1 to 100 entries.
//
//   index_bench [--keys N] [--rounds N] [--operations N] [--slices N] [--pages 4k|2m]
//               [--isa scalar|avx2|avx512] [--json PATH]
//
// Rates are operations per second of the thread's CPU time, which other processes do not disturb.
// Ratios are taken within a round. Values are median [min..max] over the rounds.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <new>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "index/btree.hpp"
#include "workload/generator.hpp"
#include "workload/keyspace.hpp"
#include "workload/random.hpp"

#ifdef PMOSS_HAVE_ABSL
#include "absl/container/btree_map.h"
#endif

namespace {

const std::string peer_name = "absl::btree_map";

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
  if (isa == pmoss::Isa::scalar) return "scalar";
  return isa == pmoss::Isa::avx2 ? "avx2" : "avx512";
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

/// Forces a value into a register; without this the compiler deletes the load of an unused payload,
/// and with it a cache miss.
inline void consume(std::uint64_t value) { asm volatile("" : : "r"(value)); }

double thread_cpu_seconds() {
  timespec time;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// What the operations of a round came to: the same for every tree.
struct Answer {
  std::uint64_t found = 0;    ///< keys looked up or updated that were there
  std::uint64_t scanned = 0;  ///< entries that scans have read
};

/// One way of doing operations on some tree.
struct Candidate {
  std::string name;
  std::function<Answer(std::span<const pmoss::Operation>)> run;
};

/// A mix of operations, and the rates of every candidate in its rounds.
struct Mix {
  std::string name;
  pmoss::WorkloadSpec spec;
  std::uint64_t operations;
  std::vector<Candidate> candidates;
  std::vector<std::vector<double>> rates = {};  ///< [candidates][rounds]
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

std::string json_of(const std::vector<double>& values) {
  std::ostringstream out;
  for (const double value : values) out << (out.tellp() > 0 ? ", " : "[") << value;
  return out.str() + "]";
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

/// Inserts all records in record order, a random order of the keys; CPU seconds.
template <class Insert>
double load(std::uint64_t keys, Insert insert) {
  const double start = thread_cpu_seconds();
  for (std::uint64_t record = 0; record < keys; ++record) {
    insert(pmoss::key_of_record(record, 0), record);
  }
  return thread_cpu_seconds() - start;
}

using Kind = pmoss::Operation::Kind;
constexpr std::uint32_t longest_scan = 100;

/// `place`: nothing, or where a batch has found the key.
template <class... Place>
void execute(pmoss::BTree& tree, const pmoss::EpochGuard& guard, const pmoss::Operation& operation,
             Answer& answer, const Place&... place) {
  switch (operation.kind) {
    case Kind::lookup: {
      std::uint64_t value = 0;
      answer.found += tree.lookup(guard, operation.key, value) ? 1 : 0;
      consume(value);
      break;
    }
    case Kind::insert:
      tree.insert(guard, place..., operation.key, operation.key);
      break;
    case Kind::update:
      answer.found += tree.update(guard, place..., operation.key, operation.key) ? 1 : 0;
      break;
    case Kind::scan: {
      std::uint64_t keys[longest_scan], values[longest_scan];
      const std::size_t n =
          tree.scan(guard, place..., operation.key, operation.scan_length, keys, values);
      for (std::size_t i = 0; i < n; ++i) consume(values[i]);
      answer.scanned += n;
      break;
    }
  }
}

constexpr std::size_t batch = 64;

/// As the runtime's workers do: under one guard as long as a queue has queries.
Answer one_at_a_time(pmoss::BTree& tree, std::span<const pmoss::Operation> operations) {
  Answer answer;
  for (; !operations.empty(); operations = operations.subspan(std::min(batch, operations.size()))) {
    const pmoss::EpochGuard guard;
    for (const auto& operation : operations.first(std::min(batch, operations.size()))) {
      execute(tree, guard, operation, answer);
    }
  }
  return answer;
}

/// As the runtime's workers do: all keys of a batch are searched together, then what is no lookup
/// is done in turn, at the places found.
Answer in_batches(pmoss::BTree& tree, std::span<const pmoss::Operation> operations) {
  Answer answer;
  std::uint64_t keys[batch], values[batch] = {};
  bool found[batch];
  pmoss::BTree::Place places[batch];
  for (; !operations.empty(); operations = operations.subspan(std::min(batch, operations.size()))) {
    const std::size_t n = std::min(batch, operations.size());
    for (std::size_t i = 0; i < n; ++i) keys[i] = operations[i].key;
    const pmoss::EpochGuard guard;
    tree.lookup_batch(guard, keys, n, values, found, places);
    for (std::size_t next = 0; next < n + pmoss::BTree::fetched_ahead; ++next) {
      if (next < n && operations[next].kind == Kind::insert) tree.fetch_to_insert(places[next]);
      if (next < n && operations[next].kind == Kind::scan) {
        tree.fetch_to_scan(places[next], operations[next].scan_length);
      }
      if (next < pmoss::BTree::fetched_ahead) continue;
      const std::size_t i = next - pmoss::BTree::fetched_ahead;
      if (operations[i].kind == Kind::lookup) {
        answer.found += found[i] ? 1 : 0;
        consume(values[i]);
      } else {
        execute(tree, guard, operations[i], answer, places[i]);
      }
    }
  }
  return answer;
}

/// Lookups of which each begins when the one before has its value.
template <class Lookup>
Answer dependent(std::span<const pmoss::Operation> operations, Lookup lookup) {
  Answer answer;
  // 0, but the compiler does not know.
  std::uint64_t none = 0;
  asm volatile("" : "+r"(none));
  std::uint64_t value = 0;
  for (const auto& operation : operations) {
    answer.found += lookup(operation.key + (value & none), value) ? 1 : 0;
  }
  consume(value);
  return answer;
}

#ifdef PMOSS_HAVE_ABSL
using Peer = absl::btree_map<std::uint64_t, std::uint64_t>;

Answer on_peer(Peer& peer, std::span<const pmoss::Operation> operations) {
  Answer answer;
  for (const auto& operation : operations) {
    switch (operation.kind) {
      case Kind::lookup:
        if (const auto record = peer.find(operation.key); record != peer.end()) {
          consume(record->second);
          ++answer.found;
        }
        break;
      case Kind::insert:
        peer.insert_or_assign(operation.key, operation.key);
        break;
      case Kind::update:
        if (const auto record = peer.find(operation.key); record != peer.end()) {
          record->second = operation.key;
          ++answer.found;
        }
        break;
      case Kind::scan: {
        auto entry = peer.lower_bound(operation.key);
        for (std::uint32_t i = 0; i < operation.scan_length && entry != peer.end(); ++i, ++entry) {
          consume(entry->second);
          ++answer.scanned;
        }
        break;
      }
    }
  }
  return answer;
}
#endif

/// Runs every candidate on the same operations, in rotating order; false if they answer otherwise.
bool measure(Mix& mix, unsigned rounds, std::uint64_t& next_record) {
  const std::size_t n = mix.candidates.size();
  mix.rates.resize(n);
  bool agree = true;
  for (unsigned round = 0; round <= rounds; ++round) {
    std::vector<Answer> answers(n);
    std::vector<std::vector<pmoss::Operation>> drawn(n);
    for (std::size_t i = 0; i < n; ++i) {
      // The same choices. Candidates on one tree insert keys of their own.
      pmoss::OperationGenerator generator(mix.spec, round, next_record, 1);
      for (std::uint64_t o = 0; o < mix.operations; ++o) drawn[i].push_back(generator.next());
      if (mix.spec.insert > 0.0) next_record += mix.operations;
    }
    for (std::size_t turn = 0; turn < n; ++turn) {
      const std::size_t i = (round + turn) % n;
      const double start = thread_cpu_seconds();
      answers[i] = mix.candidates[i].run(drawn[i]);
      const double spent = thread_cpu_seconds() - start;
      // The first round is for warming up.
      if (round > 0) mix.rates[i].push_back(static_cast<double>(mix.operations) / spent);
    }
    for (const Answer& answer : answers) {
      agree = agree && answer.found == answers[0].found;
      // Other keys were inserted, so that a scan at the end of all may be shorter.
      agree = agree && answer.scanned * 1000 >= answers[0].scanned * 999;
    }
  }
  return agree;
}

/// Cache lines that a uniform lookup brings from memory: those that no other of many lookups has
/// touched before. What all of them share, the upper nodes, is in a cache.
double new_lines_per_lookup(pmoss::BTree& tree, std::uint64_t keys) {
  constexpr int lookups = 200'000;
  pmoss::Random random(1);
  pmoss::TouchLog log;
  std::unordered_set<std::uint64_t> lines;
  for (int i = 0; i < lookups; ++i) {
    log.clear();
    std::uint64_t value = 0;
    tree.lookup(pmoss::key_of_record(random.below(keys), 0), value, log);
    for (const auto& entry : log.entries()) lines.insert(entry.line());
  }
  return static_cast<double>(lines.size()) / lookups;
}

/// Reads of random lines, none of which waits for another, per second of the thread's CPU time.
double random_reads(std::span<const std::uint64_t> memory, std::uint64_t seed) {
  constexpr std::uint64_t reads = 20'000'000;
  const std::uint64_t lines = memory.size() / 8;
  std::uint64_t sum = 0;
  std::uint64_t state = seed | 1;
  const double start = thread_cpu_seconds();
  for (std::uint64_t i = 0; i < reads; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    sum += memory[(((state >> 32) * lines) >> 32) * 8];
  }
  const double spent = thread_cpu_seconds() - start;
  consume(sum);
  return static_cast<double>(reads) / spent;
}

/// All trees, and what doing something on each of them came to.
class Bench {
 public:
  explicit Bench(const Arguments& arguments)
      : arguments_(arguments), tree_(options()), next_record_(arguments.keys) {}

  /// False if the trees answer otherwise.
  bool run() {
    load_all();
    make_mixes();
    bool agree = true;
    for (Mix& mix : mixes_) {
      std::cerr << "measuring " << mix.name << " ...\n";
      agree = measure(mix, arguments_.rounds, next_record_) && agree;
    }
    measure_bound();
    print();
    if (!arguments_.json.empty()) write_json();
    if (!agree) std::cerr << "the trees answer otherwise: the rates mean nothing\n";
    return agree;
  }

 private:
  pmoss::BTree::Options options() const {
    return {.slices = arguments_.slices, .huge_pages = arguments_.huge_pages};
  }

  void load_all() {
    std::cerr << "loading " << arguments_.keys << " keys ...\n";
    loads_.emplace_back("own, one at a time",
                        load(arguments_.keys, [&](std::uint64_t key, std::uint64_t value) {
                          tree_.insert(key, value);
                        }));
    load_in_batches();
    for (std::uint32_t s = 0; s < tree_.slices(); ++s) bytes_ += tree_.arena(s).bytes_used();
    // What the kernel granted, not what was asked for.
    const auto huge_kib =
        std::strtoull(line_with("/proc/self/smaps_rollup", "AnonHugePages:").c_str(), nullptr, 10);
    huge_share_ = std::min(1.0, static_cast<double>(huge_kib) * 1024.0 /
                                    static_cast<double>(std::max<std::size_t>(bytes_, 1)));
#ifdef PMOSS_HAVE_ABSL
    loads_.emplace_back("absl", load(arguments_.keys, [&](std::uint64_t key, std::uint64_t value) {
                          peer_.insert_or_assign(key, value);
                        }));
#else
    std::cerr << "built without Abseil: no peer to compare with\n";
#endif
  }

  /// The same once more into a tree of its own, which is gone before anything is measured.
  void load_in_batches() {
    pmoss::BTree again(options());
    constexpr std::size_t batch = 1024;
    std::vector<std::uint64_t> keys, values;
    const auto flush = [&] {
      again.insert_batch(keys.data(), values.data(), keys.size());
      keys.clear();
      values.clear();
    };
    loads_.emplace_back("own, in batches",
                        load(arguments_.keys, [&](std::uint64_t key, std::uint64_t value) {
                          keys.push_back(key);
                          values.push_back(value);
                          if (keys.size() == batch) flush();
                        }));
    flush();
  }

  std::vector<Candidate> candidates() {
    std::vector<Candidate> all = {
        {"own, one at a time", [&](auto operations) { return one_at_a_time(tree_, operations); }},
        {"own, batches of 64", [&](auto operations) { return in_batches(tree_, operations); }}};
#ifdef PMOSS_HAVE_ABSL
    all.push_back({peer_name, [&](auto operations) { return on_peer(peer_, operations); }});
#endif
    return all;
  }

  std::vector<Candidate> chained() {
    std::vector<Candidate> all;
    all.push_back({"own, one at a time", [&](auto operations) {
                     return dependent(operations, [&](std::uint64_t key, std::uint64_t& value) {
                       return tree_.lookup(key, value);
                     });
                   }});
#ifdef PMOSS_HAVE_ABSL
    all.push_back({peer_name, [&](auto operations) {
                     return dependent(operations, [&](std::uint64_t key, std::uint64_t& value) {
                       const auto record = peer_.find(key);
                       if (record == peer_.end()) return false;
                       value = record->second;
                       return true;
                     });
                   }});
#endif
    return all;
  }

  void make_mixes() {
    pmoss::WorkloadSpec uniform;
    uniform.records = arguments_.keys;
    uniform.max_scan_length = longest_scan;
    pmoss::WorkloadSpec updates = uniform;
    updates.distribution = pmoss::Distribution::zipf;
    updates.lookup = updates.update = 0.5;
    pmoss::WorkloadSpec inserts = updates;
    inserts.update = 0.0;
    inserts.insert = 0.5;
    pmoss::WorkloadSpec scans = inserts;
    scans.lookup = 0.0;
    scans.scan = 0.95;
    scans.insert = 0.05;
    const std::uint64_t few = std::max<std::uint64_t>(arguments_.operations / 4, 1);
    mixes_ = {
        {"lookups", uniform, arguments_.operations, candidates()},
        {"dependent lookups", uniform, few, chained()},
        {"updates", updates, arguments_.operations, candidates()},
        {"inserts", inserts, few, candidates()},
        {"scans", scans, few, candidates()},
    };
  }

  /// The bound: as many bytes as the tree has, on the same pages.
  void measure_bound() {
    lines_ = new_lines_per_lookup(tree_, arguments_.keys);
    const std::size_t size = std::max(bytes_, std::size_t{1} << 28) & ~((std::size_t{1} << 21) - 1);
    const std::unique_ptr<std::uint64_t, decltype(&std::free)> memory(
        static_cast<std::uint64_t*>(std::aligned_alloc(std::size_t{1} << 21, size)), &std::free);
    if (memory == nullptr) throw std::bad_alloc();
    if (arguments_.huge_pages) ::madvise(memory.get(), size, MADV_HUGEPAGE);
    std::memset(memory.get(), 1, size);
    random_reads({memory.get(), size / 8}, 0);
    for (unsigned round = 0; round < arguments_.rounds; ++round) {
      reads_.push_back(random_reads({memory.get(), size / 8}, round));
      shares_.push_back(100.0 * mixes_[0].rates[1][round] * lines_ / reads_.back());
    }
  }

  const char* pages() const { return arguments_.huge_pages ? "2 MiB asked for" : "4 KiB"; }
  double bytes_per_key() const {
    return static_cast<double>(bytes_) / static_cast<double>(arguments_.keys);
  }

  /// A candidate's rates as multiples of the peer's, round by round; empty without a peer.
  static std::vector<double> ratios(const Mix& mix, std::size_t candidate) {
    std::vector<double> values;
    if (mix.candidates.back().name != peer_name || candidate + 1 == mix.candidates.size()) {
      return values;
    }
    for (std::size_t r = 0; r < mix.rates[candidate].size(); ++r) {
      values.push_back(mix.rates[candidate][r] / mix.rates.back()[r]);
    }
    return values;
  }

  void print() const {
    std::cout << std::fixed << std::setprecision(2) << "one thread, " << arguments_.keys
              << " keys, " << arguments_.rounds << " rounds\n"
              << "own tree: " << arguments_.slices << " slices, pages of " << pages() << " ("
              << 100.0 * huge_share_ << " % huge), search " << name_of(pmoss::search_isa()) << ", "
              << bytes_per_key() << " B/key; absl: pages as malloc gives them\n"
              << "cpu: " << trimmed(line_with("/proc/cpuinfo", "model name")) << ", "
              << std::thread::hardware_concurrency() << " cores\n";
    for (const Mix& mix : mixes_) {
      std::cout << "\n" << mix.name << ", M per CPU second\n";
      for (std::size_t i = 0; i < mix.candidates.size(); ++i) {
        const Spread rate = spread_of(mix.rates[i]);
        std::cout << std::left << std::setw(22) << mix.candidates[i].name << std::right
                  << std::setw(7) << rate.median / 1e6 << " [" << rate.low / 1e6 << ".."
                  << rate.high / 1e6 << "]";
        if (const auto values = ratios(mix, i); !values.empty()) {
          const Spread ratio = spread_of(values);
          std::cout << "   " << ratio.median << " [" << ratio.low << ".." << ratio.high
                    << "] times absl";
        }
        std::cout << "\n";
      }
    }
    const Spread rate = spread_of(reads_);
    const Spread share = spread_of(shares_);
    std::cout << "\nindependent random reads, M per CPU second: " << rate.median / 1e6 << " ["
              << rate.low / 1e6 << ".." << rate.high / 1e6 << "]; a lookup brings " << lines_
              << " lines: batched lookups reach " << share.median << " % [" << share.low << ".."
              << share.high << "] of that\n";
    for (const auto& [name, seconds] : loads_) {
      std::cout << "load " << name << ": " << seconds << " CPU s\n";
    }
  }

  static std::string json_of_mix(const Mix& mix) {
    std::ostringstream rates, of_peer;
    for (std::size_t i = 0; i < mix.candidates.size(); ++i) {
      const std::string key = (i > 0 ? ", \"" : "\"") + mix.candidates[i].name + "\": ";
      rates << key << json_of(mix.rates[i]);
      const auto values = ratios(mix, i);
      if (!values.empty()) of_peer << key << json_of(values);
    }
    return "\"" + mix.name + "\": {\"rates\": {" + rates.str() + "}, \"ratio_to_absl\": {" +
           of_peer.str() + "}}";
  }

  void write_json() const {
    std::ofstream out(arguments_.json);
    out << "{\n  \"keys\": " << arguments_.keys << ",\n  \"rounds\": " << arguments_.rounds
        << ",\n  \"slices\": " << arguments_.slices << ",\n  \"pages\": \"" << pages()
        << "\",\n  \"huge_page_share\": " << huge_share_ << ",\n  \"search\": \""
        << name_of(pmoss::search_isa()) << "\",\n  \"bytes_per_key\": " << bytes_per_key()
        << ",\n  \"cpu\": \"" << trimmed(line_with("/proc/cpuinfo", "model name"))
        << "\",\n  \"load_cpu_seconds\": {";
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      out << (i > 0 ? ", " : "") << "\"" << loads_[i].first << "\": " << loads_[i].second;
    }
    out << "},\n  \"random_reads\": " << json_of(reads_) << ",\n  \"lines_per_lookup\": " << lines_
        << ",\n  \"share_of_random_reads\": " << json_of(shares_) << ",\n  \"mixes\": {";
    for (const Mix& mix : mixes_) {
      out << (&mix == &mixes_[0] ? "" : ",") << "\n    " << json_of_mix(mix);
    }
    out << "\n  }\n}\n";
    if (!out) throw std::runtime_error("cannot write " + arguments_.json);
  }

  const Arguments& arguments_;
  pmoss::BTree tree_;
#ifdef PMOSS_HAVE_ABSL
  Peer peer_;
#endif
  std::uint64_t next_record_;
  std::vector<std::pair<std::string, double>> loads_;  ///< CPU seconds
  std::size_t bytes_ = 0;
  double huge_share_ = 0.0;
  std::vector<Mix> mixes_;
  double lines_ = 0.0;  ///< that a lookup brings from memory
  std::vector<double> reads_, shares_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    pmoss::set_search_isa(arguments.isa);
    return Bench(arguments).run() ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::cerr << "index_bench: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
}
