#include "kinds/driven_plugin.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <ios>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kinds/own_words.hpp"
#include "kinds/plugin_index.hpp"
#include "kinds/sampled_answers.hpp"
#include "kinds/valgrind_requests.hpp"
#include "workload/generator.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::kinds {
namespace {

using Word = OwnWords::Word;

/// Stored to around every query, so that the watching tool sees where one begins and ends.
alignas(64) volatile Word mark = 0;

/// A line of /proc/self/maps.
struct Mapping {
  std::uintptr_t first, end;
  std::uint64_t offset;
  std::string permissions, path;
};

struct Range {
  std::uintptr_t first, end;
};

std::vector<Mapping> mappings() {
  std::vector<Mapping> result;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Mapping mapping;
    char dash = 0;
    std::string device, inode;
    words >> std::hex >> mapping.first >> dash >> mapping.end >> mapping.permissions >>
        mapping.offset >> device >> inode;
    if (words) std::getline(words >> std::ws, mapping.path);
    result.push_back(std::move(mapping));
  }
  return result;
}

/// Valgrind keeps its own memory and the first thread's stack there.
bool of_valgrind(const Mapping& mapping) {
  return mapping.first >= 0x1000000000 && mapping.first < 0x2000000000;
}

/// An index whose functions do nothing.
pmoss_index_api idle_api() {
  pmoss_index_api api{};
  api.abi = PMOSS_INDEX_ABI;
  api.struct_size = sizeof api;
  api.name = "nothing";
  static char nothing = 0;
  api.open = [](const pmoss_index_options*) { return reinterpret_cast<pmoss_index*>(&nothing); };
  api.close = [](pmoss_index*) {};
  api.load = [](pmoss_index*, const Word*, const Word*, std::size_t) { return 1; };
  // The caller goes the way of a key that is there, as it mostly is.
  api.lookup = [](pmoss_index*, Word key, Word* value) {
    *value = key;
    return 1;
  };
  api.insert = [](pmoss_index*, Word, Word) { return 1; };
  api.update = [](pmoss_index*, Word, Word) { return 1; };
  api.scan = [](pmoss_index*, Word, std::size_t, Word*, Word*) { return std::int64_t{0}; };
  api.size = [](pmoss_index*) { return Word{0}; };
  return api;
}

void die_with(int parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
}

/// Leaves an empty file as a sign that the end was reached: a library may end the process, too.
void sign(const std::string& path) {
  const int file = ::creat(path.c_str(), 0600);
  if (file >= 0) ::close(file);
}

/// A loaded index with queries for it.
class Driven {
 public:
  explicit Driven(const DrivenPlugin& asked)
      : facts_(asked.facts),
        keys_(asked.keys),
        queries_(asked.queries),
        scanned_(2 * longest_scan(queries_)),
        library_(std::make_shared<PluginLibrary>(asked.library)),
        before_(paths()),
        index_(library_, {asked.slices, keys_.size()}),
        idle_(std::make_shared<PluginLibrary>(idle_api()), {asked.slices, 0}),
        thread_(index_) {
    if (scanned_.size() > 0 && !index_.has_scan()) {
      throw library_->error("has no scan: choose a workload without scans");
    }
    load(asked.slices);
  }

  std::size_t queries() const { return queries_.size() / 3; }
  Word kind(std::size_t query) const { return queries_.data()[3 * query + 1]; }

  void run(std::size_t query) { run(query, index_); }
  /// The same without what a library executes, from its functions' begin to their end.
  void run_idle(std::size_t query) { run(query, idle_); }

  /// Asks for what was loaded and inserted. Throws PluginError for the first wrong answer: what an
  /// index that loses records touches is no model of it.
  void check(const std::vector<std::size_t>& inserts, bool updates) {
    const std::size_t step = 1 + keys_.size() / most_checked;
    for (std::size_t i = 0; i < keys_.size(); i += step) {
      require_found(index_, keys_.data()[i], updates ? 1 : 0);
    }
    for (const std::size_t query : inserts) require_found(index_, queries_.data()[3 * query], 1);
  }

 private:
  /// As when it is served: the keys lie by slices.
  void load(std::uint32_t slices) {
    for (std::size_t first = 0, end = 0; first < keys_.size(); first = end) {
      const std::uint32_t slice = slice_of_key(keys_.data()[first], slices);
      while (end < keys_.size() && slice_of_key(keys_.data()[end], slices) == slice) ++end;
      const std::span keys(keys_.data() + first, end - first);
      if (index_.loads_sorted()) {
        std::sort(keys.begin(), keys.end());
        index_.load_sorted(slice, keys);
      } else {
        index_.load(keys);
      }
    }
  }

  [[gnu::noinline]] void run(std::size_t query, PluginIndex& index) {
    const Word* const words = queries_.data() + 3 * query;
    Word value = 0;
    switch (static_cast<Operation::Kind>(words[1])) {
      case Operation::Kind::lookup:
        index.lookup(words[0], value);
        break;
      case Operation::Kind::insert:
        index.insert(words[0], words[0]);
        break;
      case Operation::Kind::update:
        index.update(words[0], words[0] + 1);
        break;
      case Operation::Kind::scan:
        // What looking at the records costs is no cost of the library's.
        index.scan_unseen(words[0], words[2], scanned_.data(), scanned_.data() + words[2]);
        break;
    }
  }

 public:
  /// Writes the facts, then asks DRD to print all accesses to the data.
  void show() {
    std::ostringstream facts;
    facts << std::hex << "mark " << reinterpret_cast<std::uintptr_t>(&mark) << '\n';
    std::vector<Range> data, code;
    for (const Mapping& mapping : mappings()) {
      if (of_valgrind(mapping)) continue;
      const bool of_file = !mapping.path.empty() && mapping.path.front() == '/';
      if (of_file && mapping.permissions.find('x') != std::string::npos) {
        facts << "code " << mapping.first << ' ' << mapping.end << ' ' << mapping.offset << ' '
              << mapping.path << '\n';
        code.push_back({mapping.first, mapping.end});
      } else if (holds_data(mapping, of_file)) {
        add_data({mapping.first, mapping.end}, data);
      }
    }
    for (const Range& range : data) facts << "data " << range.first << ' ' << range.end << '\n';
    facts << std::dec << "record " << index_.bytes_per_record() << '\n';
    const std::string unfinished = facts_ + ".new";
    std::ofstream(unfinished) << facts.str();
    if (std::rename(unfinished.c_str(), facts_.c_str()) != 0) {
      throw std::runtime_error(facts_ + ": cannot be written");
    }
    // From here on nothing but queries touches the data: DRD ends at the first wide store to it.
    for (const Range& range : code) valgrind::forget_code(range.first, range.end - range.first);
    for (const Range& range : data) valgrind::trace(range.first, range.end - range.first);
    valgrind::trace(reinterpret_cast<std::uintptr_t>(&mark), sizeof mark);
    shown_ = {std::move(data), std::move(code)};
  }

 private:
  static constexpr std::size_t most_checked = 100'000;

  static std::size_t longest_scan(const OwnWords& queries) {
    Word longest = 0;
    for (std::size_t i = 2; i < queries.size(); i += 3) {
      longest = std::max(longest, queries.data()[i]);
    }
    return longest;
  }

  static std::set<std::string> paths() {
    std::set<std::string> result;
    for (const Mapping& mapping : mappings()) result.insert(mapping.path);
    return result;
  }

  /// Memory without a file, and files that were mapped since the index was opened.
  bool holds_data(const Mapping& mapping, bool of_file) const {
    if (of_file) return mapping.permissions.front() == 'r' && !before_.contains(mapping.path);
    return (mapping.path.empty() || mapping.path == "[heap]") && mapping.permissions[1] == 'w';
  }

  /// Leaves out what is this file's own.
  void add_data(Range range, std::vector<Range>& data) const {
    std::vector<const OwnWords*> own{&keys_, &queries_, &scanned_};
    std::sort(own.begin(), own.end(),
              [](const OwnWords* a, const OwnWords* b) { return a->first() < b->first(); });
    for (const OwnWords* const words : own) {
      if (words->bytes() == 0 || words->first() < range.first || words->first() >= range.end) {
        continue;
      }
      if (words->first() > range.first) data.push_back({range.first, words->first()});
      range.first = words->first() + words->bytes();
    }
    if (range.first < range.end) data.push_back(range);
  }

  std::string facts_;
  OwnWords keys_, queries_, scanned_;
  std::shared_ptr<const PluginLibrary> library_;
  std::set<std::string> before_;
  PluginIndex index_, idle_;
  PluginIndex::Thread thread_;
  std::pair<std::vector<Range>, std::vector<Range>> shown_;  // freed when nothing is watched
};

}  // namespace

void drive_plugin(const DrivenPlugin& asked) {
  die_with(asked.parent);
  Driven driven(asked);
  const std::string end = asked.facts + ".end";
  driven.show();
  for (std::size_t query = 0; query < driven.queries(); ++query) {
    mark = 2 * query + 1;
    driven.run(query);
    mark = 2 * query + 2;
  }
  sign(end);
  ::_exit(0);  // closing the index would be watched, too
}

void count_plugin(const DrivenPlugin& asked, std::uint64_t limit) {
  // What is counted with the library, and without it.
  struct Names {
    const char *own, *idle;
  };
  static constexpr std::array<Names, 4> names = {
      {{"0", "idle0"}, {"1", "idle1"}, {"2", "idle2"}, {"3", "idle3"}}};
  die_with(asked.parent);
  Driven driven(asked);
  // Chosen before: a search for them would count as theirs.
  std::array<std::vector<std::size_t>, names.size()> of_kind;
  for (std::size_t query = 0; query < driven.queries(); ++query) {
    std::vector<std::size_t>& chosen = of_kind.at(driven.kind(query));
    if (chosen.size() < limit) chosen.push_back(query);
  }
  valgrind::start_counting();
  valgrind::write_counts("begin");
  for (std::size_t kind = 0; kind < names.size(); ++kind) {
    if (of_kind[kind].empty()) continue;
    for (const std::size_t query : of_kind[kind]) {
      mark = query;
      driven.run_idle(query);
    }
    valgrind::write_counts(names[kind].idle);
    for (const std::size_t query : of_kind[kind]) {
      mark = query;
      driven.run(query);
    }
    valgrind::write_counts(names[kind].own);
  }
  valgrind::stop_counting();
  driven.check(of_kind[static_cast<std::size_t>(Operation::Kind::insert)],
               !of_kind[static_cast<std::size_t>(Operation::Kind::update)].empty());
  sign(asked.facts + ".end");
}

}  // namespace pmoss::kinds
