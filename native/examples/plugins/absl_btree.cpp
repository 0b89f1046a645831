// absl::btree_map with a lock per key range, as a plugin. Debian: libabsl-dev.
//
//   c++ -std=c++20 -O2 -shared -fPIC -I native/include absl_btree.cpp -o absl.so
//   -labsl_throw_delegate -labsl_raw_logging_internal
#include <absl/container/btree_map.h>
#include <pmoss/index.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace {

struct Part {
  absl::btree_map<std::uint64_t, std::uint64_t> records;
  std::shared_mutex lock;
};

}  // namespace

struct pmoss_index {
  explicit pmoss_index(std::uint32_t slices) : parts(slices) {
    for (auto& part : parts) part = std::make_unique<Part>();
  }
  std::size_t number_of(std::uint64_t key) const {
    return static_cast<std::size_t>((static_cast<unsigned __int128>(key) * parts.size()) >> 64);
  }
  Part& part_of(std::uint64_t key) { return *parts[number_of(key)]; }

  std::vector<std::unique_ptr<Part>> parts;  // key ranges of equal width, as the slices are
};

namespace {

pmoss_index* open(const pmoss_index_options* options) { return new pmoss_index(options->slices); }

void close(pmoss_index* index) { delete index; }

int insert(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  Part& part = index->part_of(key);
  const std::unique_lock lock(part.lock);
  return part.records.insert_or_assign(key, value).second ? 1 : 0;
}

int load(pmoss_index* index, const std::uint64_t* keys, const std::uint64_t* values,
         std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) insert(index, keys[i], values[i]);
  return 1;
}

int lookup(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  Part& part = index->part_of(key);
  const std::shared_lock lock(part.lock);
  const auto record = part.records.find(key);
  if (record == part.records.end()) return 0;
  *value = record->second;
  return 1;
}

int update(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  Part& part = index->part_of(key);
  const std::unique_lock lock(part.lock);
  const auto record = part.records.find(key);
  if (record == part.records.end()) return 0;
  record->second = value;
  return 1;
}

std::int64_t scan(pmoss_index* index, std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                  std::uint64_t* values) {
  std::size_t count = 0;
  for (std::size_t i = index->number_of(first); i < index->parts.size() && count < limit; ++i) {
    Part& part = *index->parts[i];
    const std::shared_lock lock(part.lock);
    for (auto at = part.records.lower_bound(first); at != part.records.end() && count < limit;
         ++at, ++count) {
      keys[count] = at->first;
      values[count] = at->second;
    }
  }
  return static_cast<std::int64_t>(count);
}

std::uint64_t size(pmoss_index* index) {
  std::uint64_t sum = 0;
  for (const auto& part : index->parts) {
    const std::shared_lock lock(part->lock);
    sum += part->records.size();
  }
  return sum;
}

int visit_memory(pmoss_index* index, std::uint64_t first, std::uint64_t last, pmoss_visit visit,
                 void* context) {
  for (std::size_t i = index->number_of(first); i <= index->number_of(last); ++i) {
    Part& part = *index->parts[i];
    const std::shared_lock lock(part.lock);
    for (auto at = part.records.lower_bound(first); at != part.records.end() && at->first <= last;
         ++at) {
      visit(context, &*at, sizeof *at);
    }
  }
  return 1;
}

}  // namespace

extern "C" const struct pmoss_index_api* pmoss_index_get_api(void) {
  static const struct pmoss_index_api api = {
      .abi = PMOSS_INDEX_ABI,
      .struct_size = sizeof(struct pmoss_index_api),
      .name = "absl::btree_map, a lock per slice",
      .open = open,
      .close = close,
      .load = load,
      .lookup = lookup,
      .insert = insert,
      .update = update,
      .scan = scan,
      .size = size,
      .visit_memory = visit_memory,
      .bytes_per_record = [](pmoss_index*) { return 24.0; },
  };
  return &api;
}
