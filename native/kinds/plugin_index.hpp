// One index of a user's library, with the operations of our own ones.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinds/plugin_library.hpp"
#include "numa/placed_memory.hpp"
#include "workload/keyspace.hpp"

namespace pmoss::kinds {

/// A piece of memory.
struct MemoryPiece {
  std::uintptr_t first;
  std::size_t bytes;
};

/// Any thread may use it. Each has a Thread meanwhile. All operations throw PluginError if the
/// library says that it failed, or if an answer cannot be right.
///
/// Values are written by this project: a record's is its key, and an update adds less than
/// `most_added`. So a lookup that finds anything else is wrong. A value of more than a word repeats
/// that number in all its words. Each read looks at all of them: where they differ, it is wrong.
class PluginIndex {
 public:
  static constexpr std::uint64_t most_added = std::uint64_t{1} << 48;

  struct Options {
    std::uint32_t slices = 256;
    std::uint64_t expected_records = 0;
    std::uint32_t value_bytes = sizeof(std::uint64_t);  ///< a multiple of 8, at most 1024
  };

  /// Throws PluginError, also where the library cannot hold such values.
  PluginIndex(std::shared_ptr<const PluginLibrary> library, const Options& options);

  /// A thread that uses the index, from its first operation to its last one.
  class Thread {
   public:
    explicit Thread(const PluginIndex& index);
    ~Thread();
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

   private:
    std::shared_ptr<const PluginLibrary> library_;
    std::shared_ptr<pmoss_index> index_;  // stays open for detach_thread
  };

  const PluginLibrary& library() const noexcept { return *library_; }
  std::uint32_t slices() const noexcept { return slices_; }
  std::uint64_t size() const { return api().size(index_.get()); }
  double bytes_per_record() const;
  bool has_scan() const noexcept { return api().scan != nullptr; }
  bool has_erase() const noexcept { return api().erase != nullptr; }
  bool has_large_values() const noexcept { return words_ > 1; }
  /// Whether the misses of lookups in a batch overlap; else a batch is one lookup after the other.
  bool overlaps_lookups() const noexcept { return api().lookup_batch != nullptr; }
  bool tells_memory() const noexcept { return api().visit_memory != nullptr; }

  /// Adds records whose values are their keys.
  void load(std::span<const std::uint64_t> keys);
  /// Whether all records of a slice may come at once.
  bool loads_sorted() const noexcept { return api().load_sorted != nullptr && words_ == 1; }
  /// The same for all records of a slice that has none. The keys ascend.
  void load_sorted(std::uint32_t slice, std::span<const std::uint64_t> keys);
  bool lookup(std::uint64_t key, std::uint64_t& value) const {
    const int status = lookup_status(key, value);
    return is_right(status, key, value) || require_absent(status, key, value);
  }
  // The same of values of a word, in two steps: between them a caller keeps nothing but the key.
  // Each instruction and each saved register counts: the fewer there are, the more lookups whose
  // data come from memory the processor keeps under way.
  int ask(std::uint64_t key, std::uint64_t& value) const {
    return api().lookup(index_.get(), key, &value);
  }
  /// What the library says of a lookup; the number in a value of several words.
  int lookup_status(std::uint64_t key, std::uint64_t& value) const {
    return words_ > 1 ? ask_words(key, value) : ask(key, value);
  }
  /// Whether the record was found, with a value that it can have.
  static bool is_right(int status, std::uint64_t key, std::uint64_t value) {
    return status == 1 && value - key < most_added;
  }
  /// False, or throws if the answer is anything but that there is no such key.
  bool require_absent(int status, std::uint64_t key, std::uint64_t value) const;
  bool insert(std::uint64_t key, std::uint64_t value) {
    return answer(words_ > 1 ? write_words(api().insert_words, key, value)
                             : api().insert(index_.get(), key, value),
                  "insert");
  }
  bool update(std::uint64_t key, std::uint64_t value) {
    return checked_update(update_status(key, value));
  }
  int update_status(std::uint64_t key, std::uint64_t value) {
    return words_ > 1 ? write_words(api().update_words, key, value) : ask_update(key, value);
  }
  /// The same of values of a word in two steps, as those of a lookup.
  int ask_update(std::uint64_t key, std::uint64_t value) {
    return api().update(index_.get(), key, value);
  }
  bool checked_update(int status) const { return answer(status, "update"); }
  bool erase(std::uint64_t key) { return answer(api().erase(index_.get(), key), "erase"); }
  /// Looks at all records of one scan in eight, which its first key draws: looking takes a tenth of
  /// the time of a short scan.
  std::size_t scan(std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                   std::uint64_t* values) const {
    const std::size_t count = scan_unseen(first, limit, keys, values);
    if ((first * golden_ratio) >> 61 == 0) check_scan(first, count, keys, values);
    return count;
  }
  /// The same, and looks at no record.
  std::size_t scan_unseen(std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                          std::uint64_t* values) const {
    if (words_ > 1) return scan_words(first, limit, keys, values);
    const std::int64_t count = api().scan(index_.get(), first, limit, keys, values);
    if (static_cast<std::uint64_t>(count) > limit) [[unlikely]]
      fail(count, "scan");
    return static_cast<std::size_t>(count);
  }
  /// Throws for the first record of a scan that is wrong.
  void check_scan(std::uint64_t first, std::size_t count, const std::uint64_t* keys,
                  const std::uint64_t* values) const;
  void lookup_batch(const std::uint64_t* keys, std::size_t count, std::uint64_t* values,
                    bool* found) const;

  /// The memory of a slice in whole pages, ascending, without overlaps. Empty if it is unknown.
  std::vector<MemoryPiece> memory_of(std::uint32_t slice) const;

 private:
  std::uint64_t last_key_of(std::uint32_t slice) const noexcept {
    return slice + 1 < slices_ ? first_key_of_slice(slice + 1, slices_) - 1 : ~std::uint64_t{0};
  }
  /// Spreads keys over all numbers.
  static constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15;

  const pmoss_index_api& api() const noexcept { return library_->api(); }
  bool answer(int status, const char* operation) const {
    if (status == 1 || status == 0) return status == 1;
    fail(status, operation);
  }
  [[noreturn]] void fail(std::int64_t status, const char* operation) const {
    throw library_->error(std::string(operation) + "() gives " + std::to_string(status));
  }
  void check(std::uint64_t key, std::uint64_t value, const char* operation) const {
    if (value - key >= most_added) wrong(key, value, operation);
  }
  [[noreturn]] void wrong(std::uint64_t key, std::uint64_t value, const char* operation) const;

  // Values of several words.
  using WriteWords = int (*)(pmoss_index*, std::uint64_t, const std::uint64_t*);
  int write_words(WriteWords write, std::uint64_t key, std::uint64_t value) const;
  int ask_words(std::uint64_t key, std::uint64_t& value) const;
  std::size_t scan_words(std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                         std::uint64_t* values) const;
  bool batch_of_words(const std::uint64_t* keys, std::size_t count, std::uint64_t* values,
                      std::uint8_t* found) const;
  /// The number that all words of a value repeat. Throws PluginError where they differ.
  std::uint64_t number_in(const std::uint64_t* value, std::uint64_t key,
                          const char* operation) const;

  std::shared_ptr<const PluginLibrary> library_;  // outlives the index
  std::uint32_t slices_;
  std::uint32_t words_;  ///< of a value
  std::shared_ptr<pmoss_index> index_;
};

/// An index with values of several words, for an executor: no operation is in two steps.
class PluginOfValues {
 public:
  explicit PluginOfValues(PluginIndex& index) : index_(index) {}

  bool lookup(std::uint64_t key, std::uint64_t& value) const { return index_.lookup(key, value); }
  bool insert(std::uint64_t key, std::uint64_t value) { return index_.insert(key, value); }
  bool update(std::uint64_t key, std::uint64_t value) { return index_.update(key, value); }
  std::size_t scan(std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                   std::uint64_t* values) const {
    return index_.scan(first, limit, keys, values);
  }
  bool overlaps_lookups() const noexcept { return index_.overlaps_lookups(); }
  void lookup_batch(const std::uint64_t* keys, std::size_t count, std::uint64_t* values,
                    bool* found) const {
    index_.lookup_batch(keys, count, values, found);
  }

 private:
  PluginIndex& index_;
};

/// The memory of one slice, as the library tells it at every call.
class PluginSliceMemory final : public numa::PlacedMemory {
 public:
  PluginSliceMemory(const PluginIndex& index, std::uint32_t slice) : index_(index), slice_(slice) {}

  numa::ResidentPages resident_pages() const override;
  numa::PageMove move_pages(int node) override;
  /// Nothing: the library allocates, so pages to come lie where they are touched first.
  int place_from_now_on(const numa::Placement&) override { return 0; }
  /// EMLINK once all pages have been on one node: those that lie elsewhere since then hold records
  /// of other slices as well, or are new.
  int placement_error() const override { return moved_whole_ ? EMLINK : 0; }

 private:
  const PluginIndex& index_;
  std::uint32_t slice_;
  bool moved_whole_ = false;
};

}  // namespace pmoss::kinds
