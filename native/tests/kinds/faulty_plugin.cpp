// The example with one fault, which the name of its file chooses; "good" has none.
#define pmoss_index_get_api good_api
#include "../../examples/plugins/std_map.cpp"
#undef pmoss_index_get_api

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

thread_local int attached = 0;

int lookup_one_off(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  const int found = lookup(index, key, value);
  if (key % 7 == 0) *value = 17;
  return found;
}

int lookup_forgetful(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  return key % 256 < 16 ? 0 : lookup(index, key, value);
}

std::int64_t scan_backwards(pmoss_index* index, std::uint64_t first, std::size_t limit,
                            std::uint64_t* keys, std::uint64_t* values) {
  const std::int64_t count = scan(index, first, limit, keys, values);
  if (count > 1) {
    std::swap(keys[0], keys[1]);
    std::swap(values[0], values[1]);
  }
  return count;
}

int attach(pmoss_index*) {
  ++attached;
  return 1;
}
void detach(pmoss_index*) { --attached; }
int lookup_of_attached(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  return attached == 1 ? lookup(index, key, value) : -1;
}

int load_sorted(pmoss_index* index, std::uint64_t first, std::uint64_t last,
                const std::uint64_t* keys, const std::uint64_t* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (keys[i] < first || keys[i] > last || (i > 0 && keys[i] <= keys[i - 1])) return -7;
  }
  // Of a slice that has records, or is empty.
  std::uint64_t key = 0, value = 0;
  if (count == 0 || (scan(index, first, 1, &key, &value) == 1 && key <= last)) return -8;
  return load(index, keys, values, count);
}

/// Fails once in the middle of a slice, as for want of memory.
int load_sorted_later(pmoss_index* index, std::uint64_t first, std::uint64_t last,
                      const std::uint64_t* keys, const std::uint64_t* values, std::size_t count) {
  static std::atomic<int> calls = 0;
  if (calls++ != 3) return load_sorted(index, first, last, keys, values, count);
  load(index, keys, values, count / 2);
  return -12;
}

int insert_nothing(pmoss_index*, std::uint64_t, std::uint64_t) { return -5; }
int insert_into_nowhere(pmoss_index*, std::uint64_t key, std::uint64_t) {
  *reinterpret_cast<volatile int*>(key & 8) = 1;
  return 1;
}

int lookup_neighbour(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  const int found = lookup(index, key, value);
  ++*value;
  return found;
}

/// Skips a record in the middle.
std::int64_t scan_with_a_gap(pmoss_index* index, std::uint64_t first, std::size_t limit,
                             std::uint64_t* keys, std::uint64_t* values) {
  const std::int64_t count = scan(index, first, limit, keys, values);
  if (count < 4) return count;
  const auto gap = count / 2;
  std::copy(keys + gap + 1, keys + count, keys + gap);
  std::copy(values + gap + 1, values + count, values + gap);
  return count - 1;
}

int lookup_of_anything(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  if (lookup(index, key, value) == 0) *value = key;
  return 1;
}

/// How many lookups there were beyond those of a sample after the loading, and some more.
int later() {
  static std::atomic<int> calls = -4'000;
  return ++calls;
}
bool is_later() { return later() > 0; }

/// Misses records for a while, once queries are served.
int lookup_with_losses(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  const int calls = later();
  return calls > 0 && calls < 100 ? 0 : lookup(index, key, value);
}

/// For ever.
int lookup_in_circles(pmoss_index*, std::uint64_t, std::uint64_t*) {
  static std::atomic<bool> more = true;
  while (more.load()) continue;
  return 0;
}

/// Looks, then adds, in two steps: two threads may both find the key new.
int insert_in_two_steps(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  std::uint64_t before = 0;
  const bool fresh = lookup(index, key, &before) == 0;
  std::this_thread::yield();
  insert(index, key, value);
  return fresh ? 1 : 0;
}

/// Looks, then writes, in two steps: a key that is erased in between is there again.
int update_in_two_steps(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  std::uint64_t before = 0;
  if (lookup(index, key, &before) == 0) return 0;
  std::this_thread::yield();
  insert(index, key, value);
  return 1;
}

thread_local std::unordered_map<std::uint64_t, std::uint64_t> own_copies;

/// Each thread goes on reading what it has read once.
int lookup_old(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  const auto [at, fresh] = own_copies.try_emplace(key);
  if (fresh && lookup(index, key, &at->second) == 0) {
    own_copies.erase(at);
    return 0;
  }
  *value = at->second;
  return 1;
}
int update_own_copy(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  own_copies.erase(key);
  return update(index, key, value);
}
int insert_own_copy(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  own_copies.erase(key);
  return insert(index, key, value);
}

int insert_but_extremes(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  return key == 0 || key == ~std::uint64_t{0} ? -1 : insert(index, key, value);
}

int lookup_that_leaks(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  static std::atomic<char*> last = nullptr;
  char* const memory = static_cast<char*>(std::malloc(16384));
  std::fill_n(memory, 16384, 1);
  last = memory;
  return lookup(index, key, value);
}

/// Once, as a server of its own would.
int insert_and_fork(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  static std::atomic<int> calls = 0;
  if (++calls == 500 && ::fork() == 0) {
    ::pause();
    ::_exit(0);
  }
  return insert(index, key, value);
}

/// Every thread to the first CPU that the process may use.
int lookup_on_the_first(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  static const int first = [] {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    ::sched_getaffinity(::getpid(), sizeof allowed, &allowed);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) ++cpu;
    return cpu;
  }();
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(first, &own);
  ::sched_setaffinity(0, sizeof own, &own);
  return lookup(index, key, value);
}

int insert_pinned(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(::sched_getcpu(), &first);
  ::sched_setaffinity(0, sizeof first, &first);
  return insert(index, key, value);
}

/// An index whose values may have several words.
struct Sized : pmoss_index {
  std::size_t words = 1;
  std::map<std::uint64_t, std::vector<std::uint64_t>> large;  // under the same lock
  bool in_parts = false;                                      // written outside of the lock
  bool cut = false;                                           // read in part
};
Sized& sized(pmoss_index* index) { return *static_cast<Sized*>(index); }

/// Relaxed: a value that is written meanwhile is then in parts, and no data race.
void copy_words(const std::vector<std::uint64_t>& from, std::uint64_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    auto& word = const_cast<std::uint64_t&>(from[i]);
    to[i] = std::atomic_ref(word).load(std::memory_order_relaxed);
  }
}
int update_words(pmoss_index* index, std::uint64_t key, const std::uint64_t* value) {
  Sized& own = sized(index);
  std::unique_lock lock(own.lock);
  const auto at = own.large.find(key);
  if (at == own.large.end()) return 0;
  if (own.in_parts) lock.unlock();
  for (std::size_t i = 0; i < own.words; ++i) {
    std::atomic_ref(at->second[i]).store(value[i], std::memory_order_relaxed);
    if (!own.in_parts || i != own.words / 2) continue;
    for (int times = 0; times < 50; ++times) std::this_thread::yield();
  }
  return 1;
}
int insert_words(pmoss_index* index, std::uint64_t key, const std::uint64_t* value) {
  Sized& own = sized(index);
  const std::unique_lock lock(own.lock);
  return own.large.insert_or_assign(key, std::vector(value, value + own.words)).second ? 1 : 0;
}

template <bool InParts, bool Cut>
pmoss_index* open_sized(const pmoss_index_options*, std::uint32_t bytes) {
  auto* const index = new Sized;
  index->words = bytes / sizeof(std::uint64_t);
  index->in_parts = InParts;
  index->cut = Cut;
  return index;
}

/// Adds values of several words to the example.
void add_words(struct pmoss_index_api& api) {
  api.open = [](const pmoss_index_options*) -> pmoss_index* { return new Sized; };
  api.open_words = open_sized<false, false>;
  api.close = [](pmoss_index* index) { delete &sized(index); };
  api.insert_words = insert_words;
  api.update_words = update_words;
  api.load = [](pmoss_index* index, const std::uint64_t* keys, const std::uint64_t* values,
                std::size_t count) {
    const std::size_t words = sized(index).words;
    if (words == 1) return load(index, keys, values, count);
    for (std::size_t i = 0; i < count; ++i) insert_words(index, keys[i], values + i * words);
    return 1;
  };
  api.lookup = [](pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
    Sized& own = sized(index);
    if (own.words == 1) return lookup(index, key, value);
    const std::shared_lock lock(own.lock);
    const auto at = own.large.find(key);
    if (at == own.large.end()) return 0;
    copy_words(at->second, value, own.cut ? 1 : own.words);
    return 1;
  };
  api.erase = [](pmoss_index* index, std::uint64_t key) {
    if (sized(index).words == 1) return erase(index, key);
    const std::unique_lock lock(index->lock);
    return static_cast<int>(sized(index).large.erase(key));
  };
  api.scan = [](pmoss_index* index, std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                std::uint64_t* values) -> std::int64_t {
    const Sized& own = sized(index);
    if (own.words == 1) return scan(index, first, limit, keys, values);
    const std::shared_lock lock(index->lock);
    std::size_t count = 0;
    for (auto at = own.large.lower_bound(first); at != own.large.end() && count < limit; ++at) {
      keys[count] = at->first;
      copy_words(at->second, values + count++ * own.words, own.words);
    }
    return static_cast<std::int64_t>(count);
  };
  api.visit_memory = [](pmoss_index* index, std::uint64_t first, std::uint64_t last,
                        pmoss_visit visit, void* context) {
    const Sized& own = sized(index);
    if (own.words == 1) return visit_memory(index, first, last, visit, context);
    const std::shared_lock lock(index->lock);
    for (auto at = own.large.lower_bound(first); at != own.large.end() && at->first <= last; ++at) {
      visit(context, at->second.data(), own.words * sizeof(std::uint64_t));
    }
    return 1;
  };
  api.size = [](pmoss_index* index) -> std::uint64_t {
    if (sized(index).words == 1) return size(index);
    const std::shared_lock lock(index->lock);
    return sized(index).large.size();
  };
}

/// The file that this code was loaded from.
std::string own_path() {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<void*>(&own_path), &info) != 0 ? info.dli_fname : "";
}

std::string own_name() {
  const std::string path = own_path();
  const std::size_t begin = path.rfind('/') + 1;
  return path.substr(begin, path.rfind('.') - begin);
}

/// Whoever loads "leaves_a_trace" runs this.
[[gnu::constructor]] void leave_a_trace() {
  if (own_name() == "leaves_a_trace") std::ofstream(own_path() + ".loaded");
}

/// Faults that would falsify a measurement.
void add_evil(struct pmoss_index_api& api, const std::string& fault) {
  if (fault == "two_steps") api.insert = insert_in_two_steps;
  if (fault == "brings_back") api.update = update_in_two_steps;
  if (fault == "erases_twice") {
    api.erase = [](pmoss_index* index, std::uint64_t key) {
      std::uint64_t before = 0;
      const int there = lookup(index, key, &before);
      std::this_thread::yield();
      erase(index, key);
      return there;
    };
  }
  if (fault == "minor_0") api.struct_size = offsetof(struct pmoss_index_api, erase);
  if (fault == "old_copies") {
    api.erase = nullptr;
    api.lookup = lookup_old;
    api.lookup_batch = nullptr;
    api.update = update_own_copy;
    api.insert = insert_own_copy;
  }
  if (fault == "no_extremes") api.insert = insert_but_extremes;
  if (fault == "leaks") api.lookup = lookup_that_leaks;
  if (fault == "forks") api.insert = insert_and_fork;
  if (fault == "forks_at_once") {
    api.open = [](const pmoss_index_options* options) {
      if (::fork() == 0) ::_exit(0);
      return good_api()->open(options);
    };
  }
  if (fault == "prints") {
    api.open = [](const pmoss_index_options* options) {
      std::printf("hello from %s\n", own_name().c_str());
      return good_api()->open(options);
    };
  }
  if (fault == "ignores_signals") {
    api.open = [](const pmoss_index_options* options) {
      std::signal(SIGTERM, SIG_IGN);
      return good_api()->open(options);
    };
  }
  if (fault == "moves") api.lookup = lookup_on_the_first;
  if (fault == "pins") api.insert = insert_pinned;
}

struct pmoss_index_api faulty(const std::string& fault) {
  struct pmoss_index_api api = *good_api();
  if (fault == "other_abi") api.abi = 99;
  if (fault == "too_small") api.struct_size = 16;
  if (fault == "no_lookup") api.lookup = nullptr;
  if (fault == "no_index")
    api.open = [](const pmoss_index_options*) -> pmoss_index* { return nullptr; };
  if (fault == "forgets") api.lookup = lookup_forgetful;
  if (fault == "wrong_value") api.lookup = lookup_one_off;
  if (fault == "unsorted") api.scan = scan_backwards;
  if (fault == "miscounts") api.size = [](pmoss_index* index) { return size(index) / 2; };
  if (fault == "finds_nothing") {
    api.lookup = [](pmoss_index*, std::uint64_t, std::uint64_t*) { return 0; };
  }
  if (fault == "finds_anything") api.lookup = lookup_of_anything;
  if (fault == "one_more") api.lookup = lookup_neighbour;
  if (fault == "loses_some") api.lookup = lookup_with_losses;
  if (fault == "scans_with_a_gap") api.scan = scan_with_a_gap;
  if (fault == "forgets_updates") {
    api.update = [](pmoss_index* index, std::uint64_t key, std::uint64_t) {
      std::uint64_t value = 0;
      return lookup(index, key, &value);
    };
  }
  if (fault == "forgets_inserts") {
    api.insert = [](pmoss_index*, std::uint64_t, std::uint64_t) { return 1; };
  }
  if (fault == "exits") {
    api.lookup = [](pmoss_index*, std::uint64_t, std::uint64_t*) -> int { std::exit(0); };
  }
  if (fault == "throws") {
    api.lookup = [](pmoss_index*, std::uint64_t, std::uint64_t*) -> int { throw 5; };
  }
  if (fault == "throws_words") {
    api.lookup = [](pmoss_index*, std::uint64_t, std::uint64_t*) -> int {
      throw std::invalid_argument("no such key");
    };
  }
  if (fault == "closes_files") {
    api.lookup = [](pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
      for (int file = 0; file < 256; ++file) ::close(file);
      return lookup(index, key, value);
    };
  }
  if (fault == "hangs") api.lookup = lookup_in_circles;
  if (fault == "hangs_later") {
    api.lookup = [](pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
      return is_later() ? lookup_in_circles(index, key, value) : lookup(index, key, value);
    };
  }
  if (fault == "exits_later") {
    api.lookup = [](pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
      if (is_later()) std::_Exit(0);
      return lookup(index, key, value);
    };
  }
  if (fault == "crashes_later") {
    api.lookup = [](pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
      if (is_later()) std::abort();
      return lookup(index, key, value);
    };
  }
  if (fault == "fails") api.insert = insert_nothing;
  if (fault == "crashes") api.insert = insert_into_nowhere;
  if (fault == "hides_pages") {
    api.visit_memory = [](pmoss_index*, std::uint64_t, std::uint64_t, pmoss_visit, void*) {
      return 1;
    };
  }
  if (fault == "endless_pages") {
    api.visit_memory = [](pmoss_index* index, std::uint64_t, std::uint64_t, pmoss_visit visit,
                          void* context) {
      visit(context, index, ~std::size_t{0});
      return 1;
    };
  }
  if (fault == "negative_record") api.bytes_per_record = [](pmoss_index*) { return -64.0; };
  add_evil(api, fault);
  if (fault.starts_with("words")) add_words(api);
  if (fault == "words_in_parts") {
    api.open_words = open_sized<true, false>;
    api.erase = nullptr;  // what is written outside of the lock must stay
  }
  if (fault == "words_cut") api.open_words = open_sized<false, true>;
  if (fault == "no_insert_words") {
    api.open_words = [](const pmoss_index_options*, std::uint32_t) -> pmoss_index* {
      return nullptr;
    };
  }
  if (fault == "hidden") api.visit_memory = nullptr;
  if (fault == "no_scan") api.scan = nullptr;
  if (fault == "sorted") api.load_sorted = load_sorted;
  if (fault == "refuses_sorted") api.load_sorted = load_sorted_later;
  if (fault == "drops_sorted") {
    api.load_sorted = [](pmoss_index* index, std::uint64_t, std::uint64_t,
                         const std::uint64_t* keys, const std::uint64_t* values,
                         std::size_t count) { return load(index, keys, values, count - 1); };
  }
  if (fault == "attached") {
    api.attach_thread = attach;
    api.detach_thread = detach;
    api.lookup = lookup_of_attached;
  }
  return api;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const struct pmoss_index_api* pmoss_index_get_api(void) {
  static const struct pmoss_index_api api = faulty(own_name());
  return &api;
}
