// The conformance test of a user's library.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kinds/check_client.hpp"
#include "kinds/library_watch.hpp"
#include "kinds/plugin.hpp"
#include "kinds/plugin_index.hpp"
#include "numa/memory.hpp"
#include "workload/random.hpp"

namespace pmoss::kinds {
namespace {

constexpr std::uint32_t slices = 16;
constexpr std::uint64_t few_operations = 2000;
/// Of large values: bytes, and operations of each thread.
constexpr std::array<std::uint32_t, 2> large_values = {24, 1024};
constexpr std::uint64_t large_operations = 20'000;

/// Runs a function for 0, 1, ... in a thread each; throws the first error, once `failed` is set.
void at_once(PluginIndex& index, unsigned count, const std::function<void(unsigned)>& function,
             std::atomic<bool>* failed = nullptr) {
  std::vector<std::exception_ptr> failures(count);
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          const SameCpus cpus(index.library());
          {
            const PluginIndex::Thread thread(index);
            function(i);
          }
          cpus.require();
        } catch (...) {
          failures[i] = std::current_exception();
          if (failed != nullptr) *failed = true;
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

/// Threads that wait for each other again and again; none sleeps, so that all go on at once.
class Together {
 public:
  explicit Together(unsigned threads) : threads_(threads) {}

  /// False if one of the threads has failed.
  bool wait(std::uint64_t time) {
    for (++arrived_; arrived_ < threads_ * (time + 1) && !failed;) std::this_thread::yield();
    return !failed;
  }

  std::atomic<bool> failed = false;

 private:
  const unsigned threads_;
  std::atomic<std::uint64_t> arrived_ = 0;
};

/// New keys, which all threads insert in the same order. They wait for each other before each block
/// of keys. Of each key one insert gives 1.
void insert_the_same(PluginIndex& index, unsigned threads, std::uint64_t block,
                     std::uint64_t keys) {
  const std::uint64_t before = index.size();
  std::vector<std::atomic<unsigned>> winners(keys);
  Together together(threads);
  const auto key_of = [before](std::uint64_t number) { return mix64(~(before + number)); };
  const auto insert = [&](unsigned number) {
    for (std::uint64_t i = 0; i < winners.size(); ++i) {
      if (i % block == 0 && !together.wait(i / block)) return;
      const std::uint64_t key = key_of(i);
      if (index.insert(key, key + number)) ++winners[i];
    }
  };
  at_once(index, threads, insert, &together.failed);
  for (std::uint64_t i = 0; i < winners.size(); ++i) {
    if (winners[i] == 1) continue;
    throw index.library().error("insert() by " + std::to_string(threads) +
                                " threads at once of the new key " + std::to_string(key_of(i)) +
                                " gives 1 to " + std::to_string(winners[i]) +
                                " of them: it must to one");
  }
  const std::uint64_t records = before + winners.size();
  if (index.size() != records) {
    throw index.library().error("size() gives " + std::to_string(index.size()) +
                                " after inserts of the same keys by several threads: there are " +
                                std::to_string(records) + " records");
  }
}

/// Keys that all threads erase while all of them update them, block by block as in
/// insert_the_same(). Of each key one call gives 1, and none is there in the end.
void erase_the_same(PluginIndex& index, unsigned threads, std::uint64_t keys) {
  constexpr std::uint64_t block = 8;
  const std::uint64_t before = index.size();
  const auto key_of = [](std::uint64_t number) { return mix64(number + (std::uint64_t{1} << 40)); };
  for (std::uint64_t i = 0; i < keys; ++i) index.insert(key_of(i), key_of(i));
  std::vector<std::atomic<unsigned>> winners(keys);
  Together together(threads);
  const auto work = [&](unsigned number) {
    for (std::uint64_t i = 0; i < keys; ++i) {
      if (i % block == 0 && !together.wait(i / block)) return;
      const std::uint64_t key = key_of(i);
      if ((i + number) % 2 == 0) index.update(key, key + number);
      if (index.erase(key)) ++winners[i];
    }
  };
  at_once(index, threads, work, &together.failed);
  const auto require = [&](bool right, std::uint64_t key, const std::string& what) {
    if (right) return;
    throw index.library().error(what + " the key " + std::to_string(key) + ", which " +
                                std::to_string(threads) + " threads updated and erased at once");
  };
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::uint64_t key = key_of(i);
    std::uint64_t value = 0;
    require(!index.lookup(key, value), key, "an update brings back");
    require(winners[i] == 1, key,
            "erase() gives 1 to " + std::to_string(winners[i]) + " calls for");
  }
  if (index.size() != before) {
    throw index.library().error("size() gives " + std::to_string(index.size()) +
                                " after all new keys were erased: there are " +
                                std::to_string(before) + " records");
  }
}

/// Each shared key is written by one thread, with ascending values. Whoever reads it finds no older
/// value than one whose update had ended, and none older than what this thread has read.
void read_the_same(PluginIndex& index, unsigned threads, const PluginCheck& check,
                   CheckProgress& progress) {
  constexpr std::size_t shared = 64;
  std::array<std::atomic<std::uint64_t>, shared> written{};
  const auto key_of = [](std::size_t number) { return mix64(number + 1); };
  for (std::size_t i = 0; i < shared; ++i) index.insert(key_of(i), key_of(i));
  constexpr std::uint64_t block = 256;
  Together together(threads);
  const auto read_and_write = [&](unsigned number) {
    Random random(mix64(check.seed + 77) + number);
    std::array<std::uint64_t, shared> read{};
    for (std::uint64_t i = 0; i < check.operations; ++i) {
      if (i % block == 0 && !together.wait(i / block)) return;
      if (i % CheckProgress::step == 0) {
        progress.add(std::min(check.operations - i, CheckProgress::step));
      }
      const auto chosen = static_cast<std::size_t>(random.below(shared));
      const std::uint64_t key = key_of(chosen);
      if (chosen % threads == number && random.below(2) == 0) {
        const std::uint64_t next = written[chosen].load() + 1;
        if (!index.update(key, key + next)) {
          throw index.library().error("update() at the key " + std::to_string(key) +
                                      " gives 0 for a key that is there");
        }
        written[chosen].store(next);
        continue;
      }
      const std::uint64_t ended = written[chosen].load();
      std::uint64_t value = 0;
      if (!index.lookup(key, value)) {
        throw index.library().error("lookup() at the key " + std::to_string(key) +
                                    " gives 0 for a key that is there");
      }
      const std::uint64_t least = std::max(ended, read[chosen]);
      if (value - key < least) {
        throw index.library().error(
            "lookup() at the key " + std::to_string(key) + " gives the value " +
            std::to_string(value) + ", which is older than " + std::to_string(key + least) +
            ": an update of another thread had ended, or this one had read it before");
      }
      read[chosen] = value - key;
    }
  };
  at_once(index, threads, read_and_write, &together.failed);
}

/// The smallest and the largest key are keys as others are.
void use_extreme_keys(PluginIndex& index) {
  for (const std::uint64_t key : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    const auto require = [&](bool right, const std::string& what) {
      if (!right) throw index.library().error("at the key " + std::to_string(key) + " " + what);
    };
    std::uint64_t value = 0;
    try {
      require(!index.lookup(key, value), "lookup() gives 1 before it was inserted");
      require(!index.update(key, key), "update() gives 1 before it was inserted");
      require(index.insert(key, key), "insert() gives 0 for a new key");
      require(!index.insert(key, key + 1), "insert() gives 1 for a key that was there");
      require(index.lookup(key, value) && value == key + 1, "lookup() does not find its value");
      require(index.update(key, key + 2), "update() gives 0 for a key that is there");
      require(index.lookup(key, value) && value == key + 2, "lookup() does not find its value");
      if (index.has_scan()) {
        std::uint64_t first = 0;
        const std::size_t count = index.scan(key, 1, &first, &value);
        require(count == 1 && first == key && value == key + 2, "scan() does not begin with it");
      }
      if (!index.has_erase()) continue;
      require(index.erase(key), "erase() gives 0 for a key that is there");
      require(!index.erase(key), "erase() gives 1 for no key");
      require(!index.lookup(key, value), "lookup() gives 1 after it was erased");
      require(index.insert(key, key), "insert() gives 0 for a new key");
    } catch (const PluginError& error) {
      const std::string said = error.what();
      if (said.find("the key " + std::to_string(key)) != std::string::npos) throw;
      throw PluginError(said + " at the key " + std::to_string(key));
    }
  }
}

/// Operations that add no record need no memory, once they have been done before.
std::string watch_memory(PluginIndex& index, std::uint64_t operations, std::uint64_t seed) {
  constexpr std::uint64_t allowed_bytes = 4 << 20;
  constexpr std::uint64_t allowed_bytes_per_operation = 64;
  const std::uint64_t limit = allowed_bytes + allowed_bytes_per_operation * operations;
  std::array<std::uint64_t, longest_scan> keys{}, values{};
  // What the library keeps for later grows once; a leak grows every time.
  std::uint64_t least_growth = ~std::uint64_t{0};
  for (int round = 0; round < 3 && least_growth > limit; ++round) {
    const std::uint64_t before = resident_bytes();
    Random random(mix64(seed + 78));
    for (std::uint64_t i = 0; i < operations; ++i) {
      const std::uint64_t key = random.next();
      std::uint64_t value = 0;
      index.lookup(key, value);
      index.update(key | 1, key | 1);
      if (index.has_scan() && i % 8 == 0) index.scan(key, 10, keys.data(), values.data());
    }
    const std::uint64_t after = resident_bytes();
    least_growth = std::min(least_growth, after > before ? after - before : 0);
  }
  if (least_growth > limit) {
    throw index.library().error("memory grows by " + std::to_string(least_growth / operations) +
                                " bytes for each lookup, update and part of a scan, none of which "
                                "adds a record: a leak");
  }
  return "memory: lookups, updates and scans need no more of it";
}

std::string look_at_memory(const PluginIndex& index) {
  if (!index.tells_memory()) {
    return "visit_memory is missing: pages cannot follow their slices to other nodes";
  }
  std::uint64_t pages = 0;
  for (std::uint32_t slice = 0; slice < index.slices(); ++slice) {
    const numa::ResidentPages resident = PluginSliceMemory(index, slice).resident_pages();
    if (resident.error_number != 0) {
      return "visit_memory: the kernel does not say where the pages lie: " +
             numa::explain_memory_error(resident.error_number);
    }
    if (resident.total() == 0) {
      throw index.library().error("visit_memory() of slice " + std::to_string(slice) + " of " +
                                  std::to_string(slices) +
                                  ", which holds records, tells of no page that is there");
    }
    pages += resident.total();
  }
  return "visit_memory: " + std::to_string(pages) + " pages in " + std::to_string(slices) +
         " slices, some of them in several";
}

/// Loads slices sorted, each at once and in several threads, and looks for each record.
std::string load_sorted(const std::shared_ptr<const PluginLibrary>& library,
                        const PluginCheck& check) {
  if (library->api().load_sorted == nullptr) {
    return "load_sorted is missing: records are loaded in no order";
  }
  Random random(mix64(~check.seed));
  std::vector<std::uint64_t> keys{0, ~std::uint64_t{0}};
  while (keys.size() < check.operations) keys.push_back(random.next());
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  PluginIndex index(library, {slices, keys.size()});
  at_once(index, check.threads, [&](unsigned number) {
    for (std::uint32_t slice = number; slice < slices; slice += check.threads) {
      const auto from = [&](std::uint32_t part) {
        return part < slices
                   ? std::lower_bound(keys.begin(), keys.end(), first_key_of_slice(part, slices))
                   : keys.end();
      };
      index.load_sorted(slice, {from(slice), from(slice + 1)});
    }
  });
  const PluginIndex::Thread thread(index);
  const auto require = [&](bool right, const std::string& what) {
    if (!right) throw library->error("after load_sorted(), " + what);
  };
  require(index.size() == keys.size(), "size() gives " + std::to_string(index.size()) + " for " +
                                           std::to_string(keys.size()) + " records");
  for (const std::uint64_t key : keys) {
    std::uint64_t value = 0;
    require(index.lookup(key, value) && value == key,
            "lookup() does not find the key " + std::to_string(key));
  }
  if (index.has_scan()) {
    std::vector<std::uint64_t> scanned(keys.size()), values(keys.size());
    const std::size_t count = index.scan(0, keys.size(), scanned.data(), values.data());
    index.check_scan(0, count, scanned.data(), values.data());
    require(count == keys.size() && scanned == keys, "scan() of all records gives others");
  }
  for (std::size_t i = 0; i < keys.size(); i += 100) {
    require(!index.insert(keys[i], keys[i] + 1), "insert() gives 1 for a key that was there");
    require(index.update(keys[i], keys[i]), "update() gives 0 for a key that is there");
  }
  return "load_sorted: " + std::to_string(keys.size()) + " records in " + std::to_string(slices) +
         " slices, each found";
}

/// Operations of as many threads as asked for, each on keys of its own; then each looks through its
/// records. Gives the clients.
std::vector<Client> work_apart(PluginIndex& index, const PluginCheck& check,
                               CheckProgress& progress) {
  std::vector<Client> clients;
  for (unsigned number = 0; number < check.threads; ++number) {
    clients.emplace_back(index, number, check, progress);
  }
  at_once(index, check.threads, [&](unsigned number) {
    clients[number].load(1000);
    clients[number].run(check.operations, false);
  });
  at_once(index, check.threads, [&](unsigned number) { clients[number].look_through(); });
  return clients;
}

/// Operations on values of several words, each of which is read and written whole.
std::string use_large_values(const std::shared_ptr<const PluginLibrary>& library,
                             const PluginCheck& check, CheckProgress& progress) {
  std::string sizes;
  for (const std::uint32_t bytes : large_values) {
    PluginIndex index(library, {slices, check.operations, bytes});
    const PluginIndex::Thread thread(index);
    Client alone(index, 15, check, progress);
    alone.load(1000);
    alone.run(check.operations, true);
    work_apart(index, check, progress);
    alone.look_through();
    read_the_same(index, sharing_threads(check), check, progress);
    sizes += (sizes.empty() ? "" : " and ") + std::to_string(bytes);
  }
  return "values of " + sizes + " bytes: every answer as in the models, and none in parts";
}

/// Throws PluginError for what is no size.
std::string describe_bytes(const PluginIndex& index) {
  const std::string bytes = std::to_string(std::lround(index.bytes_per_record()));
  return index.library().api().bytes_per_record != nullptr
             ? "bytes_per_record: " + bytes
             : "bytes_per_record is missing: " + bytes + " are taken";
}

}  // namespace

std::vector<std::string> check_plugin(const std::string& path, const PluginCheck& check) {
  if (check.threads < 1 || check.threads > 15) {
    throw std::invalid_argument("threads is " + std::to_string(check.threads) +
                                "; it must be 1 to 15");
  }
  if (check.operations < 1000) {
    throw std::invalid_argument("operations is " + std::to_string(check.operations) +
                                "; it must be at least 1000");
  }
  const NoProcesses processes;
  const auto library = std::make_shared<const PluginLibrary>(path);
  const SameCpus cpus(*library);
  std::vector<std::string> report{library->api().name};
  PluginIndex index(library, {slices, check.operations});
  PluginCheck large = check;
  large.operations = std::min(check.operations, large_operations);
  const bool holds_large = library->api().open_words != nullptr;
  CheckProgress progress(check, large, holds_large ? large_values.size() : 0);
  const auto each = std::to_string(check.operations);
  {
    const PluginIndex::Thread thread(index);
    Client alone(index, 15, check, progress);
    alone.require_size(0);
    alone.load(1000);
    // Early: what leaks would take all memory until the end.
    watch_memory(index, few_operations, check.seed);
    alone.run(check.operations, true);
    alone.look_through();
    report.push_back("one thread: " + each + " operations, " + std::to_string(alone.records()) +
                     " records, every answer as in the model");
  }
  const std::uint64_t before = index.size();
  const std::vector<Client> clients = work_apart(index, check, progress);
  std::uint64_t records = before;
  for (const Client& client : clients) records += client.records();
  clients.front().require_size(records);
  report.push_back(std::to_string(check.threads) + " threads at once: " + each +
                   " operations each, every answer as in the models");
  const unsigned sharing = sharing_threads(check);
  // Two threads on one key meet most often; more of them in a row meet in other ways.
  insert_the_same(index, 2, 1, std::min<std::uint64_t>(check.operations, 200'000));
  insert_the_same(index, sharing, 32, std::min<std::uint64_t>(check.operations, 50'000));
  {
    const PluginIndex::Thread thread(index);
    if (index.has_erase()) {
      erase_the_same(index, sharing, std::min<std::uint64_t>(check.operations, 50'000));
    }
    read_the_same(index, sharing, check, progress);
    use_extreme_keys(index);
  }
  report.push_back(std::to_string(sharing) +
                   " threads on the same keys: one insert wins, no answer goes back in time, and 0 "
                   "and 2^64 - 1 are keys, too");
  report.push_back(index.has_erase() ? "erase: of several for one key one wins, for good"
                                     : "erase is missing: nothing is taken out");
  report.push_back(index.has_scan() ? "scan: in order, nothing missed"
                                    : "scan is missing: workloads with scans are refused");
  report.push_back(load_sorted(library, check));
  report.push_back(holds_large ? use_large_values(library, large, progress)
                               : "open_words is missing: values have 8 bytes");
  report.push_back(look_at_memory(index));
  report.push_back(describe_bytes(index));
  {
    const PluginIndex::Thread thread(index);
    report.push_back(watch_memory(index, check.operations, check.seed));
    progress.add(check.operations);
  }
  cpus.require();
  processes.require(*library);
  return report;
}

}  // namespace pmoss::kinds
