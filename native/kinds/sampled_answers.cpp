#include "kinds/sampled_answers.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "workload/random.hpp"

namespace pmoss::kinds {
namespace {

using Keys = std::vector<std::uint64_t>;

/// Asks, and throws for what the workload cannot have written.
class Questions {
 public:
  Questions(PluginIndex& index, std::uint64_t most_added)
      : index_(index), most_added_(most_added) {}

  /// Returns the value.
  std::uint64_t require_found(std::uint64_t key) const {
    std::uint64_t value = 0;
    if (!found("lookup", index_.lookup_status(key, value))) missed("lookup", key);
    require_value("lookup", key, value);
    return value;
  }

  void require_absent(std::uint64_t key) const {
    std::uint64_t value = 0;
    if (found("lookup", index_.lookup_status(key, value))) {
      wrong("lookup() finds the key " + std::to_string(key) + " with the value " +
            std::to_string(value) + ", which was never written: expected nothing");
    }
  }

  void require_batch(std::span<const std::uint64_t> keys) const {
    constexpr std::size_t batch = 64;
    std::uint64_t values[batch];
    bool is_found[batch];
    for (std::size_t first = 0; first < keys.size(); first += batch) {
      const auto part = keys.subspan(first, std::min(batch, keys.size() - first));
      index_.lookup_batch(part.data(), part.size(), values, is_found);
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (!is_found[i]) missed("lookup_batch", part[i]);
        require_value("lookup_batch", part[i], values[i]);
      }
    }
  }

  /// Writes another value, and then the one that was there.
  void require_updated(std::uint64_t key) {
    const std::uint64_t before = require_found(key);
    for (const std::uint64_t value : {before == key ? key + 1 : key, before}) {
      if (!found("update", index_.update_status(key, value))) missed("update", key);
      std::uint64_t read = 0;
      if (!found("lookup", index_.lookup_status(key, read))) missed("lookup", key);
      if (read != value) {
        wrong("lookup() of the key " + std::to_string(key) + " gives the value " +
              std::to_string(read) + " after an update: expected " + std::to_string(value));
      }
    }
  }

  /// From the first of the loaded keys to the last, with any of the inserted ones between them.
  void require_scanned(const Keys& loaded, const Keys& inserted) const {
    const std::size_t limit = loaded.size() + inserted.size();
    Keys keys(limit), values(limit);
    const std::size_t count = index_.scan_unseen(loaded.front(), limit, keys.data(), values.data());
    const std::string from = "scan() from the key " + std::to_string(loaded.front());
    auto next = loaded.begin();
    for (std::size_t i = 0; i < count && next != loaded.end(); ++i) {
      const bool ascends = i == 0 || keys[i] > keys[i - 1];
      const bool is_next = keys[i] == *next;
      const bool between = keys[i] < *next && std::ranges::binary_search(inserted, keys[i]);
      if (!ascends || (!is_next && !between)) {
        wrong(from + " gives the key " + std::to_string(keys[i]) + " as number " +
              std::to_string(i) + ": expected " + std::to_string(*next));
      }
      require_value("scan", keys[i], values[i]);
      if (is_next) ++next;
    }
    if (next != loaded.end()) {
      wrong(from + " ends after " + std::to_string(count) + " of " + std::to_string(limit) +
            " records: expected the key " + std::to_string(*next));
    }
  }

  [[noreturn]] void wrong(const std::string& what) const { throw index_.library().error(what); }

 private:
  bool found(const char* operation, int status) const {
    if (status != 0 && status != 1) {
      wrong(std::string(operation) + "() gives " + std::to_string(status));
    }
    return status == 1;
  }

  [[noreturn]] void missed(const char* operation, std::uint64_t key) const {
    wrong(std::string(operation) + "() does not find the key " + std::to_string(key) +
          ", which was loaded: expected the value " + expected(key));
  }

  void require_value(const char* operation, std::uint64_t key, std::uint64_t value) const {
    if (value - key <= most_added_) return;
    wrong(std::string(operation) + "() of the key " + std::to_string(key) + " gives the value " +
          std::to_string(value) + ", which was never written: expected " + expected(key));
  }

  std::string expected(std::uint64_t key) const {
    const std::string least = std::to_string(key);
    return most_added_ == 0 ? least : least + ", or up to " + std::to_string(most_added_) + " more";
  }

  PluginIndex& index_;
  std::uint64_t most_added_;
};

/// The least keys from `first` on, ascending.
Keys neighbours(std::span<const std::uint64_t> keys, std::uint64_t first, std::size_t limit) {
  Keys least;  // a heap: the largest is in front
  for (const std::uint64_t key : keys) {
    if (key < first) continue;
    if (least.size() == limit) {
      if (key >= least.front()) continue;
      std::ranges::pop_heap(least);
      least.pop_back();
    }
    least.push_back(key);
    std::ranges::push_heap(least);
  }
  std::ranges::sort_heap(least);
  return least;
}

}  // namespace

void SampledAnswers::note(std::uint32_t slice, std::span<const std::uint64_t> keys) {
  if (keys.empty()) return;
  const std::size_t parts = std::min<std::size_t>(most_stretches, slices_);
  Stretch& stretch = stretches_[slice * parts / slices_];
  {
    const std::scoped_lock lock(mutex_);
    // The first slice of a part that has records, in whatever order threads come.
    if (!stretch.loaded.empty() && stretch.slice < slice) return;
  }
  Keys loaded = neighbours(keys, keys[keys.size() / 2], longest_stretch);
  const std::scoped_lock lock(mutex_);
  if (stretch.loaded.empty() || slice <= stretch.slice) stretch = {slice, std::move(loaded), {}};
}

void SampledAnswers::note_inserted(std::uint64_t end, const std::function<bool()>& cancelled) {
  std::uint64_t record = std::max(inserted_until_, spec_.records);
  for (; record < end; ++record) {
    if ((record & 0xfff) == 0 && cancelled()) break;
    const std::uint64_t key = spec_.space.key(record, spec_.seed);
    const std::uint32_t slice = slice_of_key(key, slices_);
    for (Stretch& stretch : stretches_) {
      if (stretch.loaded.empty() || stretch.slice != slice) continue;
      if (key > stretch.loaded.front() && key < stretch.loaded.back()) {
        stretch.inserted.push_back(key);
      }
    }
  }
  inserted_until_ = record;
  for (Stretch& stretch : stretches_) {
    Keys& inserted = stretch.inserted;
    std::ranges::sort(inserted);
    inserted.erase(std::unique(inserted.begin(), inserted.end()), inserted.end());
  }
}

Keys SampledAnswers::drawn_keys() const {
  Random random(mix64(spec_.seed + 1));
  Keys keys;
  for (std::uint64_t i = 0; i < std::min(most_drawn, spec_.records); ++i) {
    keys.push_back(spec_.space.key(random.below(spec_.records), spec_.seed));
  }
  return keys;
}

void SampledAnswers::check(PluginIndex& index, const runtime::Written& written,
                           const std::function<bool()>& cancelled) {
  note_inserted(written.next_insert_record, cancelled);
  const PluginIndex::Thread thread(index);
  const bool updates = spec_.update + spec_.read_modify_write > 0.0;
  Questions questions(index, updates ? written.most_added : 0);
  const Keys drawn = drawn_keys();
  for (const std::uint64_t key : drawn) {
    if (cancelled()) return;
    questions.require_found(key);
  }
  if (index.overlaps_lookups()) questions.require_batch(drawn);
  for (const Stretch& stretch : stretches_) {
    if (cancelled()) return;
    const Keys& loaded = stretch.loaded;
    for (std::size_t i = 0; i < loaded.size(); ++i) {
      questions.require_found(loaded[i]);
      const std::uint64_t after = loaded[i] + 1;
      if (i + 1 < loaded.size() && after != loaded[i + 1] &&
          !std::ranges::binary_search(stretch.inserted, after)) {
        questions.require_absent(after);
      }
    }
    if (spec_.scan > 0.0 && !loaded.empty()) {
      questions.require_scanned(loaded, stretch.inserted);
    }
  }
  if (updates) {
    for (std::size_t i = 0; i < std::min(most_updated, drawn.size()) && !cancelled(); ++i) {
      questions.require_updated(drawn[i]);
    }
  }
  // The newest records may be read before they are written.
  if (written.not_found > 0 && spec_.distribution != Distribution::latest) {
    questions.wrong(std::to_string(written.not_found) +
                    " lookups and updates of loaded keys did not find them while several threads "
                    "worked: expected none");
  }
  if (written.size && *written.size != index.size()) {
    questions.wrong("size() gives " + std::to_string(index.size()) +
                    " after the inserts: expected " + std::to_string(*written.size));
  }
}

void require_found(PluginIndex& index, std::uint64_t key, std::uint64_t most_added) {
  Questions(index, most_added).require_found(key);
}

}  // namespace pmoss::kinds
