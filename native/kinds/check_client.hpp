// A client of a user's library under test, which knows what each operation must answer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kinds/plugin.hpp"
#include "kinds/plugin_index.hpp"
#include "workload/random.hpp"

namespace pmoss::kinds {

inline constexpr std::size_t longest_scan = 100;

/// How many threads work on the same keys.
inline unsigned sharing_threads(const PluginCheck& check) { return std::max(check.threads, 2U); }

/// Counts the operations of all threads, and reports them to the caller.
class CheckProgress {
 public:
  /// `large`: what is done besides with large values, once for each of the sizes.
  CheckProgress(const PluginCheck& check, const PluginCheck& large, std::uint64_t sizes)
      : check_(check),
        all_(check.operations * (check.threads + sharing_threads(check) + 2) +
             sizes * large.operations * (large.threads + sharing_threads(large) + 1)) {}

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
        case 5:
          if (index_.has_erase()) {
            erase();
          } else {
            lookup();
          }
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

  void erase() {
    const std::uint64_t key = own_key();
    const bool there = model_.erase(key) == 1;
    if (index_.erase(key) != there) {
      say("erase", key, there ? "0 for a key that is there" : "1 for no key");
    }
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

}  // namespace pmoss::kinds
