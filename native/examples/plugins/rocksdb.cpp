// RocksDB in memory, as a plugin. Debian: librocksdb-dev.
//
//   c++ -std=c++20 -O2 -shared -fPIC -I native/include rocksdb.cpp -o rocks.so -lrocksdb
#include <pmoss/index.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

struct pmoss_index {
  std::unique_ptr<rocksdb::Env> env;  // files are memory
  std::unique_ptr<rocksdb::DB> db;
  std::array<std::mutex, 256> writers;  // of a key: "was it there" and "put" are one step
  std::atomic<std::uint64_t> size{0};
  std::size_t value_bytes = 8;
};

namespace {

/// Eight bytes in the order of the numbers.
struct Word {
  explicit Word(std::uint64_t number) : bytes(__builtin_bswap64(number)) {}
  rocksdb::Slice slice() const { return {reinterpret_cast<const char*>(&bytes), sizeof bytes}; }
  static std::uint64_t of(const rocksdb::Slice& slice) {
    std::uint64_t bytes = 0;
    __builtin_memcpy(&bytes, slice.data(), sizeof bytes);
    return __builtin_bswap64(bytes);
  }
  std::uint64_t bytes;
};

rocksdb::WriteOptions unlogged() {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  return options;
}

pmoss_index* open_words(const pmoss_index_options*, std::uint32_t value_bytes) {
  auto index = std::make_unique<pmoss_index>();
  index->value_bytes = value_bytes;
  index->env.reset(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  rocksdb::Options options;
  options.env = index->env.get();
  options.create_if_missing = true;
  rocksdb::DB* db = nullptr;
  if (!rocksdb::DB::Open(options, "/index", &db).ok()) return nullptr;
  index->db.reset(db);
  return index.release();
}

void close(pmoss_index* index) {
  index->db.reset();  // before the files
  delete index;
}

rocksdb::Slice slice_of(const pmoss_index* index, const std::uint64_t* value) {
  return {reinterpret_cast<const char*>(value), index->value_bytes};
}

int load(pmoss_index* index, const std::uint64_t* keys, const std::uint64_t* values,
         std::size_t count) {
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t* const value = values + i * index->value_bytes / sizeof *values;
    if (!batch.Put(Word(keys[i]).slice(), slice_of(index, value)).ok()) return -1;
  }
  index->size += count;
  return index->db->Write(unlogged(), &batch).ok() ? 1 : -1;
}

int lookup(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  rocksdb::PinnableSlice stored;
  const auto status =
      index->db->Get({}, index->db->DefaultColumnFamily(), Word(key).slice(), &stored);
  if (value != nullptr && status.ok()) __builtin_memcpy(value, stored.data(), stored.size());
  return status.ok() ? 1 : status.IsNotFound() ? 0 : -1;
}

int insert_words(pmoss_index* index, std::uint64_t key, const std::uint64_t* value) {
  const std::lock_guard lock(index->writers[(key >> 4) % index->writers.size()]);
  const int is_found = lookup(index, key, nullptr);
  if (is_found < 0 || !index->db->Put(unlogged(), Word(key).slice(), slice_of(index, value)).ok()) {
    return -1;
  }
  if (is_found == 0) ++index->size;
  return 1 - is_found;
}

int update_words(pmoss_index* index, std::uint64_t key, const std::uint64_t* value) {
  const std::lock_guard lock(index->writers[(key >> 4) % index->writers.size()]);
  const int is_found = lookup(index, key, nullptr);
  if (is_found != 1) return is_found;
  return index->db->Put(unlogged(), Word(key).slice(), slice_of(index, value)).ok() ? 1 : -1;
}

int insert(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  return insert_words(index, key, &value);
}

int update(pmoss_index* index, std::uint64_t key, std::uint64_t value) {
  return update_words(index, key, &value);
}

std::int64_t scan(pmoss_index* index, std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                  std::uint64_t* values) {
  const std::unique_ptr<rocksdb::Iterator> at(index->db->NewIterator({}));
  std::size_t count = 0;
  for (at->Seek(Word(first).slice()); at->Valid() && count < limit; at->Next(), ++count) {
    keys[count] = Word::of(at->key());
    const rocksdb::Slice value = at->value();
    __builtin_memcpy(values + count * value.size() / sizeof *values, value.data(), value.size());
  }
  return at->status().ok() ? static_cast<std::int64_t>(count) : -1;
}

std::uint64_t size(pmoss_index* index) { return index->size; }

}  // namespace

extern "C" const struct pmoss_index_api* pmoss_index_get_api(void) {
  static const struct pmoss_index_api api = {
      .abi = PMOSS_INDEX_ABI,
      .struct_size = sizeof(struct pmoss_index_api),
      .name = "RocksDB in memory",
      .open = [](const pmoss_index_options* options) { return open_words(options, 8); },
      .close = close,
      .load = load,
      .lookup = lookup,
      .insert = insert,
      .update = update,
      .scan = scan,
      .size = size,
      .open_words = open_words,
      .insert_words = insert_words,
      .update_words = update_words,
  };
  return &api;
}
