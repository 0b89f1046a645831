#include "kinds/plugin_index.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

namespace pmoss::kinds {
namespace {

constexpr std::uintptr_t page_bytes = 4096;
constexpr std::size_t most_words = 1024 / sizeof(std::uint64_t);
/// Of what a process can have: the kernel's half of the addresses is above. Nothing below it
/// overflows when it is rounded up to pages.
constexpr std::uintptr_t end_of_memory = ~std::uintptr_t{0} / 2 + 1;

/// Sorts pieces and joins those that touch.
std::vector<MemoryPiece> joined(std::vector<MemoryPiece> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const MemoryPiece& a, const MemoryPiece& b) { return a.first < b.first; });
  std::vector<MemoryPiece> result;
  for (const MemoryPiece& piece : pieces) {
    if (!result.empty() && piece.first <= result.back().first + result.back().bytes) {
      MemoryPiece& last = result.back();
      last.bytes = std::max(last.bytes, piece.first + piece.bytes - last.first);
    } else {
      result.push_back(piece);
    }
  }
  return result;
}

/// What visit_memory() tells; an exception must not pass through the library.
struct Visited {
  std::vector<MemoryPiece> pieces;
  bool no_memory = false;
  /// The first one that no process can have.
  std::optional<MemoryPiece> impossible = {};

  void add(const void* address, std::size_t bytes) noexcept {
    if (bytes == 0 || impossible) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    if (begin >= end_of_memory || bytes > end_of_memory - begin) {
      impossible = {begin, bytes};
      return;
    }
    const std::uintptr_t first = begin / page_bytes * page_bytes;
    const std::uintptr_t end = (begin + bytes + page_bytes - 1) / page_bytes * page_bytes;
    if (!pieces.empty()) {
      // Neighbouring nodes often lie on one page.
      MemoryPiece& last = pieces.back();
      if (first >= last.first && first <= last.first + last.bytes) {
        last.bytes = std::max(last.bytes, end - last.first);
        return;
      }
    }
    try {
      // A few pages hold many nodes: they are joined before they become too many.
      if (pieces.size() == most_pieces) pieces = joined(std::move(pieces));
      pieces.push_back({first, end - first});
    } catch (const std::bad_alloc&) {
      no_memory = true;
    }
  }

  static constexpr std::size_t most_pieces = std::size_t{1} << 20;
};

/// Memory of this thread for so many words, which the next call may use again.
std::uint64_t* scratch(std::size_t words) {
  thread_local std::vector<std::uint64_t> memory;
  if (memory.size() < words) memory.resize(words);
  return memory.data();
}

}  // namespace

PluginIndex::PluginIndex(std::shared_ptr<const PluginLibrary> library, const Options& options)
    : library_(std::move(library)),
      slices_(options.slices),
      words_(options.value_bytes / sizeof(std::uint64_t)) {
  if (words_ > 1 && api().open_words == nullptr) {
    throw library_->error("holds values of 8 bytes, and " + std::to_string(options.value_bytes) +
                          " are asked for: give it open_words, insert_words and update_words of "
                          "pmoss/index.h, or choose value_bytes = 8");
  }
  const pmoss_index_options plugin_options{options.slices, options.expected_records};
  pmoss_index* const opened = words_ > 1 ? api().open_words(&plugin_options, options.value_bytes)
                                         : api().open(&plugin_options);
  if (opened == nullptr) {
    throw library_->error(words_ > 1 ? "open_words() gives NULL" : "open() gives NULL");
  }
  index_ = {opened, [library = library_](pmoss_index* index) { library->api().close(index); }};
}

PluginIndex::Thread::Thread(const PluginIndex& index)
    : library_(index.library_), index_(index.index_) {
  if (library_->api().attach_thread == nullptr) return;
  const int status = library_->api().attach_thread(index_.get());
  if (status != 1) index.fail(status, "attach_thread");
}

PluginIndex::Thread::~Thread() {
  if (library_->api().detach_thread != nullptr) library_->api().detach_thread(index_.get());
}

double PluginIndex::bytes_per_record() const {
  const double bytes =
      api().bytes_per_record != nullptr ? api().bytes_per_record(index_.get()) : 56 + 8 * words_;
  if (!(bytes >= 0.0 && bytes < 1e9)) {
    throw library_->error("bytes_per_record() gives " + std::to_string(bytes));
  }
  return bytes;
}

void PluginIndex::load(std::span<const std::uint64_t> keys) {
  const std::size_t batch = 4096 / words_;
  std::vector<std::uint64_t> words;  // where they are not the keys themselves
  for (std::size_t done = 0; done < keys.size(); done += batch) {
    const auto part = keys.subspan(done, std::min(batch, keys.size() - done));
    if (words_ > 1) {
      words.clear();
      for (const std::uint64_t key : part) words.insert(words.end(), words_, key);
    }
    const std::uint64_t* const values = words_ > 1 ? words.data() : part.data();
    if (!answer(api().load(index_.get(), part.data(), values, part.size()), "load")) {
      fail(0, "load");
    }
  }
}

std::uint64_t PluginIndex::number_in(const std::uint64_t* value, std::uint64_t key,
                                     const char* operation) const {
  std::uint64_t different = 0;
  for (std::uint32_t i = 1; i < words_; ++i) different |= value[i] ^ value[0];
  if (different == 0) return value[0];
  throw library_->error(std::string(operation) + "() of the key " + std::to_string(key) +
                        " gives parts of several values, or not all " +
                        std::to_string(words_ * sizeof(std::uint64_t)) + " bytes of one");
}

int PluginIndex::write_words(WriteWords write, std::uint64_t key, std::uint64_t value) const {
  std::array<std::uint64_t, most_words> words;
  std::fill_n(words.begin(), words_, value);
  return write(index_.get(), key, words.data());
}

int PluginIndex::ask_words(std::uint64_t key, std::uint64_t& value) const {
  std::array<std::uint64_t, most_words> words;
  words.front() = words[words_ - 1] = ~key;  // where a library writes a part, the rest differs
  const int status = api().lookup(index_.get(), key, words.data());
  if (status == 1) value = number_in(words.data(), key, "lookup");
  return status;
}

std::size_t PluginIndex::scan_words(std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                                    std::uint64_t* values) const {
  std::uint64_t* const words = scratch(limit * words_);
  const std::int64_t count = api().scan(index_.get(), first, limit, keys, words);
  if (static_cast<std::uint64_t>(count) > limit) fail(count, "scan");
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = number_in(words + i * words_, keys[i], "scan");
  return static_cast<std::size_t>(count);
}

bool PluginIndex::batch_of_words(const std::uint64_t* keys, std::size_t count,
                                 std::uint64_t* values, std::uint8_t* found) const {
  std::uint64_t* const words = scratch(count * words_);
  if (!answer(api().lookup_batch(index_.get(), keys, count, words, found), "lookup_batch")) {
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (found[i] == 1) values[i] = number_in(words + i * words_, keys[i], "lookup_batch");
  }
  return true;
}

void PluginIndex::load_sorted(std::uint32_t slice, std::span<const std::uint64_t> keys) {
  const int status = api().load_sorted(index_.get(), first_key_of_slice(slice, slices_),
                                       last_key_of(slice), keys.data(), keys.data(), keys.size());
  if (status != 1) fail(status, "load_sorted");
}

bool PluginIndex::require_absent(int status, std::uint64_t key, std::uint64_t value) const {
  if (status == 1) wrong(key, value, "lookup");
  if (status != 0) fail(status, "lookup");
  return false;
}

void PluginIndex::check_scan(std::uint64_t first, std::size_t count, const std::uint64_t* keys,
                             const std::uint64_t* values) const {
  for (std::size_t i = 0; i < count; ++i) {
    if (keys[i] < first || (i > 0 && keys[i] <= keys[i - 1])) {
      throw library_->error("scan() from " + std::to_string(first) + " gives the key " +
                            std::to_string(keys[i]) + " as number " + std::to_string(i) +
                            ": keys must ascend and not lie below the first");
    }
    check(keys[i], values[i], "scan");
  }
}

void PluginIndex::lookup_batch(const std::uint64_t* keys, std::size_t count, std::uint64_t* values,
                               bool* found) const {
  if (api().lookup_batch == nullptr) {
    for (std::size_t i = 0; i < count; ++i) found[i] = lookup(keys[i], values[i]);
    return;
  }
  static_assert(sizeof(bool) == 1);
  auto* const answers = reinterpret_cast<std::uint8_t*>(found);
  const bool done =
      words_ > 1
          ? batch_of_words(keys, count, values, answers)
          : answer(api().lookup_batch(index_.get(), keys, count, values, answers), "lookup_batch");
  if (!done) fail(0, "lookup_batch");
  // One branch for all that can be wrong with all of them.
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    wrong |=
        (((values[i] - keys[i]) / most_added) & -std::uint64_t{answers[i]}) | (answers[i] >> 1);
  }
  if (wrong == 0) [[likely]]
    return;
  for (std::size_t i = 0; i < count; ++i) {
    if (answers[i] > 1) fail(answers[i], "lookup_batch");
    if (answers[i] == 1) check(keys[i], values[i], "lookup_batch");
  }
}

std::vector<MemoryPiece> PluginIndex::memory_of(std::uint32_t slice) const {
  if (!tells_memory()) return {};
  const std::uint64_t first = first_key_of_slice(slice, slices_);
  const std::uint64_t last = last_key_of(slice);
  Visited visited;
  const auto visit = [](void* context, const void* address, std::size_t bytes) {
    static_cast<Visited*>(context)->add(address, bytes);
  };
  const Thread thread(*this);
  if (!answer(api().visit_memory(index_.get(), first, last, visit, &visited), "visit_memory")) {
    fail(0, "visit_memory");
  }
  if (visited.impossible) {
    throw library_->error("visit_memory() of slice " + std::to_string(slice) + " tells of " +
                          std::to_string(visited.impossible->bytes) + " bytes at address " +
                          std::to_string(visited.impossible->first) +
                          ", which no process can have");
  }
  if (visited.no_memory) throw std::bad_alloc();
  return joined(std::move(visited.pieces));
}

void PluginIndex::wrong(std::uint64_t key, std::uint64_t value, const char* operation) const {
  throw library_->error(std::string(operation) + "() of the key " + std::to_string(key) +
                        " gives the value " + std::to_string(value) + ", which was never written");
}

numa::ResidentPages PluginSliceMemory::resident_pages() const {
  numa::ResidentPages result;
  for (const MemoryPiece& piece : index_.memory_of(slice_)) {
    result += numa::resident_pages(reinterpret_cast<const void*>(piece.first), piece.bytes);
    if (numa::is_refusal(result.error_number)) break;
  }
  return result;
}

numa::PageMove PluginSliceMemory::move_pages(int node) {
  numa::PageMove result;
  for (const MemoryPiece& piece : index_.memory_of(slice_)) {
    result += numa::move_pages(reinterpret_cast<void*>(piece.first), piece.bytes, node);
    if (numa::is_refusal(result.error_number)) break;
  }
  moved_whole_ = result.failed == 0 && result.error_number == 0;
  return result;
}

}  // namespace pmoss::kinds
