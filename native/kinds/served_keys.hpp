// Any index of 64-bit keys behind the runtime.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <utility>
#include <vector>

#include "recording/sort_keys.hpp"
#include "runtime/served_tree.hpp"
#include "runtime/worker.hpp"

namespace pmoss::kinds {

/// What a router draws for an index of keys: the operations of a generator.
std::unique_ptr<runtime::QueryStream> stream_of_keys(OperationGenerator generator,
                                                     const WorkloadSpec& spec,
                                                     std::uint32_t slices);

/// Runs operations on `Tree`: lookup, insert, update and scan with the parameters and results of
/// BTree's; a guard is passed to those that take one. Lookups of a batch go together where there is
/// a lookup_batch, and overlaps_lookups(), where there is that, does not deny it. Where that tells
/// places, as BTree's does, the other operations of the batch begin there.
template <class Tree>
class ExecutorOfKeys final : public runtime::QueryExecutor {
 public:
  ExecutorOfKeys(std::pmr::memory_resource& memory, Tree& tree, std::uint32_t max_scan_length)
      : tree_(tree), scan_keys_(max_scan_length, &memory), scan_values_(max_scan_length, &memory) {}

  // Each register that a lookup saves for its caller is a store. The fewer there are, the more
  // lookups whose data come from memory the processor keeps under way. So the rest is apart.
  void execute(const EpochGuard& guard, const runtime::Item& item) override {
    ++totals_.executed;
    if (item.kind() != Operation::Kind::lookup) return execute_other(guard, item);
    std::uint64_t value = 0;
    if constexpr (requires { &Tree::ask; }) {
      const std::uint64_t key = item.key();
      const int status = tree_.ask(key, value);
      if (!Tree::is_right(status, key, value)) [[unlikely]]
        return miss(status, key, value);
    } else {
      const bool found =
          under(guard, [&](auto&... own) { return tree_.lookup(own..., item.key(), value); });
      totals_.not_found += found ? 0 : 1;
    }
    totals_.checksum ^= value;
  }

  void execute_batch(const EpochGuard& guard, const runtime::Ring& ring,
                     std::size_t count) override {
    if constexpr (requires { tree_.overlaps_lookups(); }) {
      if (!tree_.overlaps_lookups()) return one_by_one(guard, ring, count);
    }
    if constexpr (requires { typename Tree::Place; }) {
      at_places(guard, ring, count);
    } else if constexpr (requires { &Tree::lookup_batch; }) {
      lookups_first(guard, ring, count);
    } else {
      one_by_one(guard, ring, count);
    }
  }

 private:
  [[gnu::noinline]] void miss(int status, std::uint64_t key, std::uint64_t value) {
    tree_.require_absent(status, key, value);
    ++totals_.not_found;
  }

  [[gnu::noinline]] void execute_other(const EpochGuard& guard, const runtime::Item& item) {
    execute_other_at(guard, item);
  }

  /// `place`: nothing, or where a batch has found the key.
  template <class... Place>
  void execute_other_at(const EpochGuard& guard, const runtime::Item& item, const Place&... place) {
    if (item.kind() == Operation::Kind::scan) return scan(guard, item, place...);
    if (item.kind() == Operation::Kind::insert) return insert(guard, item.key(), place...);
    update(guard, item.key(), item.key() + totals_.executed, place...);
  }

  template <class... Place>
  [[gnu::noinline]] void insert(const EpochGuard& guard, std::uint64_t key, const Place&... place) {
    const auto add = [&](auto&... own) { return tree_.insert(own..., place..., key, key); };
    totals_.inserted += under(guard, add) ? 1 : 0;
  }

  template <class... Place>
  void update(const EpochGuard& guard, std::uint64_t key, std::uint64_t value,
              const Place&... place) {
    if constexpr (requires { &Tree::ask_update; }) {
      const int status = tree_.ask_update(key, value);
      if (status != 1) [[unlikely]]
        miss_update(status);
    } else {
      const auto write = [&](auto&... own) { return tree_.update(own..., place..., key, value); };
      totals_.not_found += under(guard, write) ? 0 : 1;
    }
  }

  [[gnu::noinline]] void miss_update(int status) {
    tree_.checked_update(status);
    ++totals_.not_found;
  }

  template <class... Place>
  [[gnu::noinline]] void scan(const EpochGuard& guard, const runtime::Item& item,
                              const Place&... place) {
    const std::size_t count = under(guard, [&](auto&... own) {
      return tree_.scan(own..., place..., item.key(), item.scan_length(), scan_keys_.data(),
                        scan_values_.data());
    });
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum ^= scan_values_[i];
    totals_.checksum ^= sum;
  }

  /// Passes the worker's guard to an index whose operations take one.
  template <class Call>
  static auto under(const EpochGuard& guard, Call call) {
    if constexpr (requires(Tree& tree, std::uint64_t word) { tree.lookup(guard, word, word); }) {
      return call(guard);
    } else {
      return call();
    }
  }

  void one_by_one(const EpochGuard& guard, const runtime::Ring& ring, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) execute(guard, ring.front(i));
  }

  void lookups_first(const EpochGuard& guard, const runtime::Ring& ring, std::size_t count) {
    std::uint64_t keys[runtime::Worker::max_batch] = {};
    std::uint64_t values[runtime::Worker::max_batch];
    bool found[runtime::Worker::max_batch];
    for (std::size_t i = 0; i < count; ++i) keys[i] = ring.front(i).key();
    // For the others, the search brings the way to their keys into the cache.
    tree_.lookup_batch(keys, count, values, found);
    for (std::size_t i = 0; i < count; ++i) {
      const runtime::Item& item = ring.front(i);
      if (item.kind() == Operation::Kind::lookup) {
        account_lookup(found[i], values[i]);
      } else {
        execute(guard, item);
      }
    }
  }

  void account_lookup(bool found, std::uint64_t value) {
    ++totals_.executed;
    if (found) {
      totals_.checksum ^= value;
    } else {
      ++totals_.not_found;
    }
  }

  void at_places(const EpochGuard& guard, const runtime::Ring& ring, std::size_t count) {
    std::uint64_t keys[runtime::Worker::max_batch] = {};
    std::uint64_t values[runtime::Worker::max_batch];
    bool found[runtime::Worker::max_batch];
    typename Tree::Place places[runtime::Worker::max_batch];
    for (std::size_t i = 0; i < count; ++i) keys[i] = ring.front(i).key();
    tree_.lookup_batch(guard, keys, count, values, found, places);
    const auto fetch = [&](std::size_t i) {
      const runtime::Item& item = ring.front(i);
      if (item.kind() == Operation::Kind::insert) tree_.fetch_to_insert(places[i]);
      if (item.kind() == Operation::Kind::scan) {
        tree_.fetch_to_scan(places[i], item.scan_length());
      }
    };
    constexpr std::size_t ahead = Tree::fetched_ahead;
    for (std::size_t i = 0; i < std::min(ahead, count); ++i) fetch(i);
    for (std::size_t i = 0; i < count; ++i) {
      if (i + ahead < count) fetch(i + ahead);
      const runtime::Item& item = ring.front(i);
      if (item.kind() == Operation::Kind::lookup) {
        // The place of a tree of large values says where the value lies.
        if constexpr (requires { tree_.read(places[i]); }) {
          if (found[i]) values[i] = tree_.read(places[i]);
        }
        account_lookup(found[i], values[i]);
      } else {
        ++totals_.executed;
        execute_other_at(guard, item, places[i]);
      }
    }
  }

  Tree& tree_;
  std::pmr::vector<std::uint64_t> scan_keys_;
  std::pmr::vector<std::uint64_t> scan_values_;
};

/// Leaves bytes_to_load() to the index. `Tree` and `Migration` as ServedTree and ExecutorOfKeys
/// ask.
template <class Tree, class Migration>
class ServedKeys : public runtime::ServedTree<Tree, Migration> {
 public:
  /// Throws std::invalid_argument for a spec or options that make no sense.
  ServedKeys(const WorkloadSpec& spec, const typename Tree::Options& options)
      : runtime::ServedTree<Tree, Migration>((validate(spec), spec), options) {}

  runtime::SliceOfKey slice_of_key() const noexcept final {
    return runtime::SliceOfKey(tree_.slices());
  }

  // Each loader computes the keys of all records, which is cheap, and loads those of its slices.
  // So no two loaders write to one slice or wait for one arena.
  void load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
            const std::function<bool()>& cancelled) final {
    if constexpr (requires { tree_.bulk_load(first, last, {}, {}, std::uint64_t{}); }) {
      load_sorted(first, last, done, cancelled);
    } else {
      load_in_turn(first, last, done, cancelled);
    }
  }

  std::unique_ptr<runtime::QueryStream> stream(std::uint64_t seed,
                                               std::uint64_t first_insert_record,
                                               std::uint64_t insert_stride) const final {
    return stream_of_keys(OperationGenerator(spec_, seed, first_insert_record, insert_stride),
                          spec_, tree_.slices());
  }

  runtime::InNodeMemory<runtime::QueryExecutor> executor(std::pmr::memory_resource& memory) final {
    return runtime::make_in<ExecutorOfKeys<Tree>>(memory, memory, tree_, spec_.max_scan_length);
  }

 protected:
  using runtime::ServedTree<Tree, Migration>::spec_;
  using runtime::ServedTree<Tree, Migration>::tree_;

 private:
  /// Calls visit(key, slice) with the keys of some slices, in the order of their records. False
  /// where the caller has cancelled that.
  template <class Visit>
  bool for_each_key(std::uint32_t first, std::uint32_t last, const std::function<bool()>& cancelled,
                    Visit visit) {
    for (std::uint64_t record = 0; record < spec_.records; ++record) {
      if ((record & 0xfff) == 0 && cancelled()) return false;
      const std::uint64_t key = spec_.space.key(record, spec_.seed);
      const std::uint32_t slice = pmoss::slice_of_key(key, tree_.slices());
      if (slice >= first && slice < last) visit(key, slice);
    }
    return true;
  }

  void load_in_turn(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
                    const std::function<bool()>& cancelled) {
    std::uint64_t inserted = 0;
    for_each_key(first, last, cancelled, [&](std::uint64_t key, std::uint32_t) {
      tree_.insert(key, key);
      if ((++inserted & 0xfff) == 0) done.store(inserted, std::memory_order_relaxed);
    });
    done.store(inserted, std::memory_order_relaxed);
  }

  // The keys of each slice are collected, sorted and written into full nodes one after the other.
  // An insert in random order waits for memory instead, several times.
  void load_sorted(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
                   const std::function<bool()>& cancelled) {
    std::vector<std::vector<std::uint64_t>> keys(last - first);
    {
      std::vector<std::size_t> counts(last - first);
      const auto count = [&](std::uint64_t, std::uint32_t slice) { ++counts[slice - first]; };
      if (!for_each_key(first, last, cancelled, count)) return;
      for (std::size_t i = 0; i < keys.size(); ++i) keys[i].reserve(counts[i]);
    }
    const auto collect = [&](std::uint64_t key, std::uint32_t slice) {
      keys[slice - first].push_back(key);
    };
    if (!for_each_key(first, last, cancelled, collect)) return;
    std::uint64_t loaded = 0;
    for (std::uint32_t slice = first; slice < last; ++slice) {
      if (cancelled()) return;
      std::vector<std::uint64_t> own = std::move(keys[slice - first]);
      const std::size_t records = own.size();
      recording::sort_keys(own);
      own.erase(std::unique(own.begin(), own.end()), own.end());
      if (tree_.is_new(slice)) {
        tree_.bulk_load(slice, slice + 1, own, own, spec_.seed);
      } else {  // a load that was cancelled is begun again
        tree_.insert_batch(own.data(), own.data(), own.size());
      }
      loaded += records;
      done.store(loaded, std::memory_order_relaxed);
    }
  }
};

}  // namespace pmoss::kinds
