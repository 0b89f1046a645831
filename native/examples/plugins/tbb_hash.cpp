// tbb::concurrent_hash_map, as a plugin: an index without an order, so without scans. Debian:
// libtbb-dev.
//
//   c++ -std=c++20 -O2 -shared -fPIC -I native/include tbb_hash.cpp -o hash.so -ltbb
#include <pmoss/index.h>
#include <tbb/concurrent_hash_map.h>

struct pmoss_index {
  tbb::concurrent_hash_map<std::uint64_t, std::uint64_t> records;
};

namespace {

using Records = decltype(pmoss_index::records);

pmoss_index* open(const pmoss_index_options* options) {
  auto* const index = new pmoss_index;
  index->records.rehash(options->expected_records);
  return index;
}

void close(pmoss_index* index) { delete index; }

int lookup(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  Records::const_accessor record;
  if (!index->records.find(record, key)) return 0;
  *value = record->second;
  return 1;
}

int insert(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  Records::accessor place;
  const bool fresh = index->records.insert(place, key);
  place->second = value;
  return fresh ? 1 : 0;
}

int load(pmoss_index* index, const std::uint64_t* keys, const std::uint64_t* values,
         std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) insert(index, keys[i], values[i]);
  return 1;
}

int update(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  Records::accessor record;
  if (!index->records.find(record, key)) return 0;
  record->second = value;
  return 1;
}

std::uint64_t size(pmoss_index* index) { return index->records.size(); }

}  // namespace

extern "C" const struct pmoss_index_api* pmoss_index_get_api(void) {
  static const struct pmoss_index_api api = {
      .abi = PMOSS_INDEX_ABI,
      .struct_size = sizeof(struct pmoss_index_api),
      .name = "tbb::concurrent_hash_map",
      .open = open,
      .close = close,
      .load = load,
      .lookup = lookup,
      .insert = insert,
      .update = update,
      .size = size,
  };
  return &api;
}
