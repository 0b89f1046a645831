// LMDB in memory behind one lock, as a plugin. Debian: liblmdb-dev.
//   c++ -std=c++20 -O2 -shared -fPIC -I native/include lmdb.cpp -o lmdb.so -llmdb
#include <lmdb.h>
#include <pmoss/index.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <shared_mutex>
#include <string>

struct pmoss_index {
  int file = -1;  // in memory: it ends with the process
  MDB_env* env = nullptr;
  MDB_dbi db = 0;
  std::shared_mutex lock;  // as MDB_NOLOCK asks for
};

namespace {

std::uint64_t word(const MDB_val& value) {
  std::uint64_t word = 0;
  __builtin_memcpy(&word, value.mv_data, sizeof word);
  return word;
}

void close(pmoss_index* index) {
  if (index->env != nullptr) mdb_env_close(index->env);
  if (index->file >= 0) ::close(index->file);
  delete index;
}

pmoss_index* open(const pmoss_index_options* options) {
  auto* const index = new pmoss_index;
  index->file = memfd_create("lmdb", 0);
  const std::string path = "/proc/self/fd/" + std::to_string(index->file);
  const std::size_t bytes = (std::size_t{256} << 20) + options->expected_records * 512;
  const unsigned flags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_WRITEMAP | MDB_NOSYNC | MDB_NOMETASYNC;
  MDB_txn* txn = nullptr;
  if (mdb_env_create(&index->env) == 0 && mdb_env_set_mapsize(index->env, bytes) == 0 &&
      mdb_env_open(index->env, path.c_str(), flags, 0600) == 0 &&
      mdb_txn_begin(index->env, nullptr, 0, &txn) == 0 &&
      mdb_dbi_open(txn, nullptr, MDB_INTEGERKEY, &index->db) == 0 && mdb_txn_commit(txn) == 0) {
    return index;
  }
  close(index);
  return nullptr;
}

/// 1 if a key was new, 0 if not; with `known_only`, a new key is not added.
int put(pmoss_index* index, const std::uint64_t* keys, const std::uint64_t* values,
        std::size_t count, bool known_only) {
  const std::unique_lock lock(index->lock);
  MDB_txn* txn = nullptr;
  if (mdb_txn_begin(index->env, nullptr, 0, &txn) != 0) return -1;
  int fresh = 0;
  for (std::size_t i = 0; i < count; ++i) {
    MDB_val k{sizeof *keys, const_cast<std::uint64_t*>(keys + i)};
    MDB_val v{sizeof *values, const_cast<std::uint64_t*>(values + i)};
    MDB_val old;
    fresh = mdb_get(txn, index->db, &k, &old) == MDB_NOTFOUND ? 1 : 0;
    if (fresh == 1 && known_only) break;
    if (mdb_put(txn, index->db, &k, &v, 0) != 0) {
      mdb_txn_abort(txn);
      return -1;
    }
  }
  return mdb_txn_commit(txn) == 0 ? fresh : -1;
}

/// Calls `use(key, value)` for the records from `first` on, until it returns false.
template <class Use>
int walk(pmoss_index* index, std::uint64_t first, const Use& use) {
  const std::shared_lock lock(index->lock);
  MDB_txn* txn = nullptr;
  MDB_cursor* cursor = nullptr;
  if (mdb_txn_begin(index->env, nullptr, MDB_RDONLY, &txn) != 0) return -1;
  int status = mdb_cursor_open(txn, index->db, &cursor);
  if (status == 0) {
    MDB_val k{sizeof first, &first};
    MDB_val v;
    status = mdb_cursor_get(cursor, &k, &v, MDB_SET_RANGE);
    while (status == 0 && use(k, v)) status = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    mdb_cursor_close(cursor);
  }
  mdb_txn_abort(txn);
  return status == 0 || status == MDB_NOTFOUND ? 1 : -1;
}

int lookup(pmoss_index* index, std::uint64_t key, std::uint64_t* value) {
  int is_found = 0;
  const int done = walk(index, key, [&](const MDB_val& k, const MDB_val& v) {
    if (word(k) == key) is_found = (*value = word(v), 1);
    return false;
  });
  return done < 0 ? done : is_found;
}

std::int64_t scan(pmoss_index* index, std::uint64_t first, std::size_t limit, std::uint64_t* keys,
                  std::uint64_t* values) {
  std::size_t count = 0;
  const int done = walk(index, first, [&](const MDB_val& k, const MDB_val& v) {
    keys[count] = word(k);
    values[count] = word(v);
    return ++count < limit;
  });
  return done < 0 ? done : static_cast<std::int64_t>(count);
}

std::uint64_t size(pmoss_index* index) {
  const std::shared_lock lock(index->lock);
  MDB_stat statistics;
  return mdb_env_stat(index->env, &statistics) == 0 ? statistics.ms_entries : 0;
}

int visit_memory(pmoss_index* index, std::uint64_t first, std::uint64_t last, pmoss_visit visit,
                 void* context) {
  return walk(index, first, [&](const MDB_val& k, const MDB_val& v) {
    if (word(k) > last) return false;
    visit(context, v.mv_data, v.mv_size);
    return true;
  });
}

}  // namespace

extern "C" const struct pmoss_index_api* pmoss_index_get_api(void) {
  static const struct pmoss_index_api api = {
      .abi = PMOSS_INDEX_ABI,
      .struct_size = sizeof(struct pmoss_index_api),
      .name = "LMDB",
      .open = open,
      .close = close,
      .load = [](pmoss_index* index, const std::uint64_t* keys, const std::uint64_t* values,
                 std::size_t count) { return put(index, keys, values, count, false) < 0 ? -1 : 1; },
      .lookup = lookup,
      .insert = [](pmoss_index* index, std::uint64_t key,
                   std::uint64_t value) { return put(index, &key, &value, 1, false); },
      .update =
          [](pmoss_index* index, std::uint64_t key, std::uint64_t value) {
            const int fresh = put(index, &key, &value, 1, true);
            return fresh < 0 ? fresh : 1 - fresh;
          },
      .scan = scan,
      .size = size,
      .visit_memory = visit_memory,
  };
  return &api;
}
