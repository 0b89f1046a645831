// The conformance test of a user's library.
#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kinds/plugin.hpp"
#include "kinds/plugin_index.hpp"
#include "numa/memory.hpp"
#include "workload/random.hpp"

namespace pmoss::kinds {
namespace {

constexpr std::uint32_t slices = 16;
constexpr std::size_t longest_scan = 100;

/// Counts the operations of all threads, and reports them to the caller.
class CheckProgress {
 public:
  explicit CheckProgress(const PluginCheck& check)
      : check_(check), all_(check.operations * (check.threads + 1)) {}

  static constexpr std::uint64_t step = 1024;  ///< operations between two reports

  void add(std::uint64_t operations) {
    if (!check_.progress) return;
    const std::scoped_lock lock(mutex_);
    check_.progress(done_ += operations, all_);
  }

 private:
  const PluginCheck& check_;
  const std::uint64_t all_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

/// Random operations of one thread on keys of its own, beside a model that knows the answers.
///
/// The own keys are those with `number` in their lowest four bits, so that the keys of all threads
/// lie side by side everywhere.
class Client {
 public:
  Client(PluginIndex& index, unsigned number, const PluginCheck& check, CheckProgress& progress)
      : index_(index),
        progress_(progress),
        number_(number),
        random_(mix64(check.seed) + number),
        // A key is met again some ten times.
        keys_(std::max<std::uint64_t>(check.operations / 10, 1)) {}

  void load(std::size_t count) {
    std::vector<std::uint64_t> keys;
    for (std::size_t i = 0; i < count; ++i) keys.push_back(own_key());
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    for (std::size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[random_.below(i)]);
    index_.load(keys);
    for (const std::uint64_t key : keys) model_[key] = key;
  }

  /// `alone`: no other thread writes, so that scans and sizes are known exactly.
  void run(std::uint64_t operations, bool alone) {
    for (std::uint64_t i = 0; i < operations; ++i) {
      if (i % CheckProgress::step == 0)
        progress_.add(std::min(operations - i, CheckProgress::step));
      switch (random_.below(8)) {
        case 0:
        case 1:
          insert();
          break;
        case 2:
          update();
          break;
        case 3:
          if (index_.has_scan()) scan(alone);
          break;
        case 4:
          lookup_batch();
          break;
        default:
          lookup();
          break;
      }
    }
    if (alone) require_size(model_.size());
  }

  std::size_t records() const noexcept { return model_.size(); }
  void require_size(std::size_t wanted) const {
    if (index_.size() == wanted) return;
    throw index_.library().error("size() gives " + std::to_string(index_.size()) +
                                 " and there are " + std::to_string(wanted) + " records");
  }
  /// Each own key still has its value.
  void look_through() {
    for (const auto& [key, value] : model_) require_found(key, value);
  }

 private:
  std::uint64_t own_key() {
    return (mix64(random_.below(keys_) + 1) & ~std::uint64_t{15}) | std::uint64_t{number_};
  }

  void insert() {
    const std::uint64_t key = own_key();
    const std::uint64_t value = key + random_.below(1000);
    const bool fresh = !model_.contains(key);
    if (index_.insert(key, value) != fresh) {
      say("insert", key, fresh ? "0 for a new key" : "1 for a key that was there");
    }
    model_[key] = value;
  }

  void update() {
    const std::uint64_t key = own_key();
    const std::uint64_t value = key + 1000 + random_.below(1000);
    const auto at = model_.find(key);
    if (index_.update(key, value) != (at != model_.end())) {
      say("update", key, at == model_.end() ? "1 for no key" : "0 for a key that is there");
    }
    if (at != model_.end()) at->second = value;
  }

  void lookup() {
    const std::uint64_t key = own_key();
    const auto at = model_.find(key);
    if (at != model_.end()) {
      require_found(key, at->second);
    } else {
      std::uint64_t value = 0;
      if (index_.lookup(key, value)) say("lookup", key, "1 for no key");
    }
  }

  void lookup_batch() {
    constexpr std::size_t count = 17;
    std::uint64_t keys[count];
    std::uint64_t values[count] = {};
    bool found[count] = {};
    for (std::uint64_t& key : keys) key = own_key();
    index_.lookup_batch(keys, count, values, found);
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = model_.find(keys[i]);
      if (found[i] != (at != model_.end())) say("lookup_batch", keys[i], "a wrong `found`");
      if (found[i] && values[i] != at->second) say("lookup_batch", keys[i], "a wrong value");
    }
  }

  void require_found(std::uint64_t key, std::uint64_t wanted) {
    std::uint64_t value = 0;
    if (!index_.lookup(key, value)) say("lookup", key, "0 for a key that is there");
    if (value != wanted) {
      say("lookup", key, "the value " + std::to_string(value) + " for " + std::to_string(wanted));
    }
  }

  /// Own keys in the range must all be there; keys of others come and go.
  void scan(bool alone) {
    const std::uint64_t first = random_.below(4) == 0 ? own_key() : random_.next();
    const std::size_t limit = 1 + random_.below(longest_scan);
    const std::size_t count = index_.scan(first, limit, scanned_keys_, scanned_values_);
    index_.check_scan(first, count, scanned_keys_, scanned_values_);
    auto at = model_.lower_bound(first);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t key = scanned_keys_[i];
      if ((key & 15) != number_) {
        if (alone) say("scan", key, "a key that was never written");
        continue;
      }
      if (at == model_.end() || at->first != key) {
        say("scan", at == model_.end() ? key : at->first, "other keys than there are");
      }
      if (scanned_values_[i] != at->second) say("scan", key, "a wrong value");
      ++at;
    }
    if (count < limit && at != model_.end()) say("scan", at->first, "an end before this key");
  }

  [[noreturn]] void say(const char* operation, std::uint64_t key, const std::string& what) const {
    throw index_.library().error(std::string(operation) + "() at the key " + std::to_string(key) +
                                 " gives " + what);
  }

  PluginIndex& index_;
  CheckProgress& progress_;
  unsigned number_;
  Random random_;
  std::uint64_t keys_;
  std::map<std::uint64_t, std::uint64_t> model_;
  std::uint64_t scanned_keys_[longest_scan];
  std::uint64_t scanned_values_[longest_scan];
};

/// Runs a function for 0, 1, ... in a thread each; throws the first of what they throw.
void at_once(PluginIndex& index, unsigned count, const std::function<void(unsigned)>& function) {
  std::vector<std::exception_ptr> failures(count);
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          const PluginIndex::Thread thread(index);
          function(i);
        } catch (...) {
          failures[i] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
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
  const auto library = std::make_shared<const PluginLibrary>(path);
  std::vector<std::string> report{library->api().name};
  PluginIndex index(library, {slices, check.operations});
  CheckProgress progress(check);
  const auto each = std::to_string(check.operations);
  {
    const PluginIndex::Thread thread(index);
    Client alone(index, 15, check, progress);
    alone.require_size(0);
    alone.load(1000);
    alone.run(check.operations, true);
    alone.look_through();
    report.push_back("one thread: " + each + " operations, " + std::to_string(alone.records()) +
                     " records, every answer as in the model");
  }
  const std::uint64_t before = index.size();
  std::vector<Client> clients;
  for (unsigned number = 0; number < check.threads; ++number) {
    clients.emplace_back(index, number, check, progress);
  }
  at_once(index, check.threads, [&](unsigned number) {
    clients[number].load(1000);
    clients[number].run(check.operations, false);
  });
  at_once(index, check.threads, [&](unsigned number) { clients[number].look_through(); });
  std::uint64_t records = before;
  for (const Client& client : clients) records += client.records();
  clients.front().require_size(records);
  report.push_back(std::to_string(check.threads) + " threads at once: " + each +
                   " operations each, every answer as in the models");
  report.push_back(index.has_scan() ? "scan: in order, nothing missed"
                                    : "scan is missing: workloads with scans are refused");
  report.push_back(load_sorted(library, check));
  report.push_back(look_at_memory(index));
  report.push_back(describe_bytes(index));
  return report;
}

}  // namespace pmoss::kinds
