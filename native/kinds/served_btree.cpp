#include "kinds/served_btree.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include "index/node.hpp"
#include "runtime/worker.hpp"

namespace pmoss::kinds {
namespace {

using runtime::Candidates;
using runtime::Item;
using runtime::QueryExecutor;
using runtime::QueryStream;
using runtime::Ring;

const WorkloadSpec& checked(const WorkloadSpec& spec) {
  validate(spec);
  return spec;
}

class Stream final : public QueryStream {
 public:
  Stream(OperationGenerator generator, const WorkloadSpec& spec, std::uint32_t slices)
      : generator_(std::move(generator)),
        key_spacing_(~std::uint64_t{0} / spec.records),
        slices_(slices) {}

  Operation next() noexcept override { return generator_.next(); }

  Candidates candidates(const Operation& operation) const noexcept override {
    const std::uint32_t slice = slice_of_key(operation.key, slices_);
    if (operation.kind != Operation::Kind::scan) return {slice};
    // Keys lie evenly over their range, which predicts where the scan will end.
    const std::uint64_t left = ~operation.key;
    const std::uint64_t length =
        operation.scan_length > left / key_spacing_ ? left : operation.scan_length * key_spacing_;
    return {slice, slice_of_key(operation.key + length, slices_) - slice + 1};
  }

 private:
  OperationGenerator generator_;
  std::uint64_t key_spacing_;
  std::uint32_t slices_;
};

class Executor final : public QueryExecutor {
 public:
  Executor(BTree& tree, std::uint32_t max_scan_length)
      : tree_(tree), scan_keys_(max_scan_length), scan_values_(max_scan_length) {}

  void execute(const Item& item) override {
    ++totals_.executed;
    switch (item.kind()) {
      case Operation::Kind::lookup: {
        std::uint64_t value = 0;
        totals_.not_found += tree_.lookup(item.key(), value) ? 0 : 1;
        totals_.checksum ^= value;
        break;
      }
      case Operation::Kind::insert:
        totals_.inserted += tree_.insert(item.key(), item.key()) ? 1 : 0;
        break;
      case Operation::Kind::update:
        totals_.not_found += tree_.update(item.key(), item.key() + totals_.executed) ? 0 : 1;
        break;
      case Operation::Kind::scan: {
        const std::size_t found =
            tree_.scan(item.key(), item.scan_length(), scan_keys_.data(), scan_values_.data());
        for (std::size_t i = 0; i < found; ++i) totals_.checksum ^= scan_values_[i];
        break;
      }
    }
  }

  // Lookups come first.
  void execute_batch(const Ring& ring, std::size_t count) override {
    std::uint64_t keys[runtime::Worker::max_batch] = {};
    std::uint64_t values[runtime::Worker::max_batch];
    bool found[runtime::Worker::max_batch];
    for (std::size_t i = 0; i < count; ++i) keys[i] = ring.front(i).key();
    // For the others, the search brings the way to their keys into the cache.
    tree_.lookup_batch(keys, count, values, found);
    for (std::size_t i = 0; i < count; ++i) {
      const Item& item = ring.front(i);
      if (item.kind() != Operation::Kind::lookup) {
        execute(item);
        continue;
      }
      ++totals_.executed;
      if (found[i]) {
        totals_.checksum ^= values[i];
      } else {
        ++totals_.not_found;
      }
    }
  }

 private:
  BTree& tree_;
  std::vector<std::uint64_t> scan_keys_;
  std::vector<std::uint64_t> scan_values_;
};

}  // namespace

ServedBTree::ServedBTree(const WorkloadSpec& spec, const BTree::Options& options)
    : ServedTree(checked(spec), options) {}

double ServedBTree::bytes_to_load() const noexcept {
  constexpr double fill = 0.69;  // what inserts in random order leave
  const double leaves =
      static_cast<double>(spec_.records) / (fill * index_detail::leaf_capacity) + tree_.slices();
  return 1.01 * leaves * sizeof(index_detail::Node);
}

// Each loader computes the keys of all records, which is cheap, and inserts those of its slices. So
// no two loaders write to one leaf or wait for one arena.
void ServedBTree::load(std::uint32_t first, std::uint32_t last, std::atomic<std::uint64_t>& done,
                       const std::function<bool()>& cancelled) {
  std::uint64_t inserted = 0;
  for (std::uint64_t record = 0; record < spec_.records; ++record) {
    if ((record & 0xfff) == 0) {
      done.store(inserted, std::memory_order_relaxed);
      if (cancelled()) return;
    }
    const std::uint64_t key = spec_.space.key(record, spec_.seed);
    const std::uint32_t slice = pmoss::slice_of_key(key, tree_.slices());
    if (slice < first || slice >= last) continue;
    tree_.insert(key, key);
    ++inserted;
  }
  done.store(inserted, std::memory_order_relaxed);
}

std::unique_ptr<QueryStream> ServedBTree::stream(std::uint64_t seed,
                                                 std::uint64_t first_insert_record,
                                                 std::uint64_t insert_stride) const {
  return std::make_unique<Stream>(
      OperationGenerator(spec_, seed, first_insert_record, insert_stride), spec_, tree_.slices());
}

std::unique_ptr<QueryExecutor> ServedBTree::executor() {
  return std::make_unique<Executor>(tree_, spec_.max_scan_length);
}

}  // namespace pmoss::kinds
