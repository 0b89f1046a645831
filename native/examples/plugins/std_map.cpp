// std::map behind one lock, as a plugin: the whole of what an index must bring.
//
//   c++ -std=c++20 -O2 -shared -fPIC -I native/include std_map.cpp -o map.so
#include <pmoss/index.h>

#include <map>
#include <mutex>
#include <shared_mutex>

struct pmoss_index {
  std::map<std::uint64_t, std::uint64_t> records;
  std::shared_mutex lock;
};

namespace {

pmoss_index* open(const pmoss_index_options*) { return new pmoss_index; }

void close(pmoss_index* index) { delete index; }

int load(pmoss_index* index, const std::uint64_t* keys, const std::uint64_t* values,
         std::size_t count) {
  const std::unique_lock lock(index->lock);
  for (std::size_t i = 0; i < count; ++i) index->records.insert_or_assign(keys[i], values[i]);
  return 1;
}

int lookup(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  const std::shared_lock lock(index->lock);
  const auto record = index->records.find(key);
  if (record == index->records.end()) return 0;
  *value = record->second;
  return 1;
}

int insert(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  const std::unique_lock lock(index->lock);
  return index->records.insert_or_assign(key, value).second ? 1 : 0;
}

int update(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  const std::unique_lock lock(index->lock);
  const auto record = index->records.find(key);
  if (record == index->records.end()) return 0;
  record->second = value;
  return 1;
}

int erase(pmoss_index* index, std::uint64_t key) {
  const std::unique_lock lock(index->lock);
  return static_cast<int>(index->records.erase(key));
}

std::int64_t scan(pmoss_index* index, std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                  std::uint64_t* values) {
  const std::shared_lock lock(index->lock);
  std::size_t count = 0;
  for (auto at = index->records.lower_bound(first); at != index->records.end() && count < limit;
       ++at, ++count) {
    keys[count] = at->first;
    values[count] = at->second;
  }
  return static_cast<std::int64_t>(count);
}

std::uint64_t size(pmoss_index* index) {
  const std::shared_lock lock(index->lock);
  return index->records.size();
}

int visit_memory(pmoss_index* index, std::uint64_t first, std::uint64_t last, pmoss_visit visit,
                 void* context) {
  const std::shared_lock lock(index->lock);
  for (auto at = index->records.lower_bound(first); at != index->records.end() && at->first <= last;
       ++at) {
    visit(context, &*at, sizeof *at);
  }
  return 1;
}

}  // namespace

extern "C" const struct pmoss_index_api* pmoss_index_get_api(void) {
  static const struct pmoss_index_api api = {
      .abi = PMOSS_INDEX_ABI,
      .struct_size = sizeof(struct pmoss_index_api),
      .name = "std::map behind one lock",
      .open = open,
      .close = close,
      .load = load,
      .lookup = lookup,
      .insert = insert,
      .update = update,
      .scan = scan,
      .size = size,
      .visit_memory = visit_memory,
      .erase = erase,
  };
  return &api;
}
